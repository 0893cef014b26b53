#pragma once

#include <cstdint>
#include <vector>

#include "mpi_call.h"

/// Collectives that move bytes. Blocking; every rank of `comm` is there already. Messages longer than comm.most_bytes go in pieces. Sizes are
/// in bytes and the same on all ranks, where not said otherwise. Throw std::runtime_error.
namespace samerun::detail {

void broadcast_bytes(const Comm& comm, void* data, std::size_t bytes, int root);

/// outputs: one place a rank, of `bytes` each.
void all_gather_bytes(const Comm& comm, const void* input, std::size_t bytes, const std::vector<void*>& outputs);

/// outputs: on `root` one place a rank; elsewhere not looked at.
void gather_bytes(const Comm& comm, const void* input, std::size_t bytes, const std::vector<void*>& outputs, int root);

/// inputs: on `root` one place a rank; elsewhere not looked at.
void scatter_bytes(const Comm& comm, const std::vector<const void*>& inputs, void* output, std::size_t bytes, int root);

/// One piece for each rank and one from each; sizes may differ, and what r sends to s must be what s expects of r.
struct Pieces {
  std::vector<char*> places;
  std::vector<std::size_t> bytes;
};
void all_to_all_bytes(const Comm& comm, const Pieces& input, const Pieces& output);

}  // namespace samerun::detail
