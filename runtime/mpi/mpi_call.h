#pragma once

#include <mpi.h>

#include <string>

namespace samerun::detail {

/// A group's communicator and this process's place in it. `most_bytes` bounds one message: MPI counts in int.
struct Comm {
  MPI_Comm handle = MPI_COMM_NULL;
  int rank = 0, size = 1;
  std::size_t most_bytes = std::size_t{1} << 30;
};

/// Throws std::runtime_error with MPI's text for `code`; `what` names the call. Communicators return errors (MPI_ERRORS_RETURN).
void check_mpi(int code, const char* what);

}  // namespace samerun::detail
