#include "movement.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace samerun::detail {
namespace {

constexpr int kTag = 1;

/// Calls piece(offset, bytes) until all bytes are covered.
template <class Piece>
void in_pieces(std::size_t bytes, std::size_t most, Piece piece) {
  for (std::size_t at = 0; at < bytes; at += most) piece(at, std::min(most, bytes - at));
}

/// A collective whose one buffer holds a block of each rank is bounded as a whole.
std::size_t block_limit(const Comm& comm) {
  return std::max<std::size_t>(1, comm.most_bytes / static_cast<std::size_t>(comm.size));
}

/// The blocks of all ranks one behind the other, so that nothing has to be copied.
bool adjacent(const std::vector<void*>& places, std::size_t bytes) {
  for (std::size_t i = 1; i < places.size(); ++i) {
    if (static_cast<char*>(places[i - 1]) + bytes != places[i]) return false;
  }
  return true;
}

char* at(void* data, std::size_t offset) {
  return static_cast<char*>(data) + offset;
}
const char* at(const void* data, std::size_t offset) {
  return static_cast<const char*>(data) + offset;
}

}  // namespace

void broadcast_bytes(const Comm& comm, void* data, std::size_t bytes, int root) {
  in_pieces(bytes, comm.most_bytes, [&](std::size_t offset, std::size_t size) {
    check_mpi(MPI_Bcast(at(data, offset), static_cast<int>(size), MPI_BYTE, root, comm.handle), "MPI_Bcast");
  });
}

void all_gather_bytes(const Comm& comm, const void* input, std::size_t bytes, const std::vector<void*>& outputs) {
  const auto gather = [&](const void* from, void* to, std::size_t size) {
    check_mpi(MPI_Allgather(from, static_cast<int>(size), MPI_BYTE, to, static_cast<int>(size), MPI_BYTE, comm.handle), "MPI_Allgather");
  };
  if (bytes == 0) return;
  if (bytes <= block_limit(comm) && adjacent(outputs, bytes)) {
    const bool in_place = input == outputs[static_cast<std::size_t>(comm.rank)];
    return gather(in_place ? MPI_IN_PLACE : input, outputs[0], bytes);
  }
  std::vector<char> all(std::min(bytes, block_limit(comm)) * outputs.size());
  in_pieces(bytes, block_limit(comm), [&](std::size_t offset, std::size_t size) {
    gather(at(input, offset), all.data(), size);
    for (std::size_t r = 0; r < outputs.size(); ++r) std::memcpy(at(outputs[r], offset), all.data() + r * size, size);
  });
}

void gather_bytes(const Comm& comm, const void* input, std::size_t bytes, const std::vector<void*>& outputs, int root) {
  const bool receives = comm.rank == root;
  std::vector<char> all(receives ? std::min(bytes, block_limit(comm)) * outputs.size() : 0);
  in_pieces(bytes, block_limit(comm), [&](std::size_t offset, std::size_t size) {
    const int count = static_cast<int>(size);
    check_mpi(MPI_Gather(at(input, offset), count, MPI_BYTE, all.data(), count, MPI_BYTE, root, comm.handle), "MPI_Gather");
    for (std::size_t r = 0; receives && r < outputs.size(); ++r) std::memcpy(at(outputs[r], offset), all.data() + r * size, size);
  });
}

void scatter_bytes(const Comm& comm, const std::vector<const void*>& inputs, void* output, std::size_t bytes, int root) {
  const bool sends = comm.rank == root;
  std::vector<char> all(sends ? std::min(bytes, block_limit(comm)) * inputs.size() : 0);
  in_pieces(bytes, block_limit(comm), [&](std::size_t offset, std::size_t size) {
    const int count = static_cast<int>(size);
    for (std::size_t r = 0; sends && r < inputs.size(); ++r) std::memcpy(all.data() + r * size, at(inputs[r], offset), size);
    check_mpi(MPI_Scatter(all.data(), count, MPI_BYTE, at(output, offset), count, MPI_BYTE, root, comm.handle), "MPI_Scatter");
  });
}

/// Ranks in a ring, so that each sends to one and receives from one at a time; the two may be done after different numbers of pieces.
void all_to_all_bytes(const Comm& comm, const Pieces& input, const Pieces& output) {
  const auto own = static_cast<std::size_t>(comm.rank);
  if (input.bytes[own] != output.bytes[own]) throw std::runtime_error("all_to_all: this rank sends itself another size than it expects of itself");
  if (input.bytes[own] > 0) std::memmove(output.places[own], input.places[own], input.bytes[own]);
  for (int step = 1; step < comm.size; ++step) {
    const int to = (comm.rank + step) % comm.size, from = (comm.rank - step + comm.size) % comm.size;
    const auto out = static_cast<std::size_t>(to), in = static_cast<std::size_t>(from);
    std::size_t sent = 0, received = 0;
    while (sent < input.bytes[out] || received < output.bytes[in]) {
      const std::size_t send = std::min(comm.most_bytes, input.bytes[out] - sent), receive = std::min(comm.most_bytes, output.bytes[in] - received);
      MPI_Status status;
      check_mpi(
          MPI_Sendrecv(input.places[out] + sent, static_cast<int>(send), MPI_BYTE, send > 0 ? to : MPI_PROC_NULL, kTag, output.places[in] + received,
                       static_cast<int>(receive), MPI_BYTE, receive > 0 ? from : MPI_PROC_NULL, kTag, comm.handle, &status),
          "all_to_all");
      if (receive > 0) {
        int got = 0;
        MPI_Get_count(&status, MPI_BYTE, &got);
        if (static_cast<std::size_t>(got) != receive)
          throw std::runtime_error("all_to_all: rank " + std::to_string(from) + " sent " + std::to_string(got) + " bytes where " +
                                   std::to_string(receive) + " were expected; its split sizes do not fit this rank's");
      }
      sent += send;
      received += receive;
    }
  }
}

}  // namespace samerun::detail
