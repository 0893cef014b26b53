#include "arrival.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "samerun/core/digest.h"

namespace samerun::detail {
namespace {

constexpr std::size_t kTextBytes = 160;  // of each rank, when they differ

}  // namespace

Arrival::Arrival(const Comm& comm, const std::string& text) : comm_(comm), text_(text), buffers_(std::make_shared<Buffers>()) {
  std::uint64_t signature = 0;
  std::memcpy(&signature, digest_text(text).bytes.data(), sizeof signature);
  // The least signature and the least complement: all are equal where the least is also the greatest.
  buffers_->mine = {signature, ~signature};
  check_mpi(MPI_Iallreduce(buffers_->mine.data(), buffers_->least.data(), 2, MPI_UINT64_T, MPI_MIN, comm.handle, &buffers_->request),
            "MPI_Iallreduce");
}

bool Arrival::complete() {
  int done = 0;
  check_mpi(MPI_Test(&buffers_->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

void Arrival::require_same() const {
  if (buffers_->least[0] != ~buffers_->least[1]) throw_difference();
}

void Arrival::throw_difference() const {
  std::string mine = text_.substr(0, kTextBytes);
  mine.resize(kTextBytes);
  std::vector<char> all(kTextBytes * static_cast<std::size_t>(comm_.size));
  const int count = static_cast<int>(kTextBytes);
  check_mpi(MPI_Allgather(mine.data(), count, MPI_CHAR, all.data(), count, MPI_CHAR, comm_.handle), "MPI_Allgather");
  const auto text_of = [&](int rank) {
    const auto* begin = all.data() + kTextBytes * static_cast<std::size_t>(rank);
    return std::string(begin, std::find(begin, begin + kTextBytes, '\0'));
  };
  int other = 1;
  while (other + 1 < comm_.size && text_of(other) == text_of(0)) ++other;
  throw std::runtime_error("the ranks do not call the same collective: rank 0 calls " + text_of(0) + ", rank " + std::to_string(other) + " calls " +
                           text_of(other));
}

}  // namespace samerun::detail
