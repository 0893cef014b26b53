#pragma once

#include <string>

namespace samerun::cli {

/// "Open MPI 4.1.4", as the library that the ranks would load says. Throws kConfig where it cannot be loaded.
std::string open_mpi_version();

}  // namespace samerun::cli
