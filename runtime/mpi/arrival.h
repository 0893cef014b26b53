#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "mpi_call.h"

namespace samerun::detail {

/// The wait for all ranks of a group before a collective: a reduction of two numbers that does not block, which also shows whether all of them
/// call the same thing. One thread.
class Arrival {
 public:
  /// `text` names the operation with its size, dtype and root.
  Arrival(const Comm& comm, const std::string& text);
  /// Looks once.
  bool complete();
  /// After complete(): throws std::runtime_error naming two ranks and what each called, where they differ; on every rank.
  void require_same() const;

 private:
  /// MPI writes into it until complete(): it outlives an arrival that was given up.
  struct Buffers {
    std::array<std::uint64_t, 2> mine{}, least{};
    MPI_Request request = MPI_REQUEST_NULL;
  };
  [[noreturn]] void throw_difference() const;

  Comm comm_;
  std::string text_;
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace samerun::detail
