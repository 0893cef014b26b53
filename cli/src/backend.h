#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "samerun/core/settings.h"

namespace samerun::cli {

class MpiRuns;

/// What carries the collectives of a command's runs, as far as the launcher has a say: a rank that is told "auto" decides in the end.
struct Backend {
  Setting<std::string> word{"auto", Origin::kDefault};  ///< From the record: Origin::kFile.
  std::shared_ptr<MpiRuns> mpi;                         ///< Wires ranks up for MPI; null: they are not.
  std::string mpi_library;                              ///< What the ranks open for MPI; empty where `mpi` is null.
  std::string carrier;                                  ///< "MPI over shared memory (Open MPI 4.1.4)"; empty where there is nothing to say.

  /// "backend auto: Gloo (Open MPI is not installed)"; empty for one rank that was told nothing.
  std::string text() const;
  /// What the ranks read of it.
  std::map<std::string, std::string> environment() const;
};

const std::vector<std::string>& backend_words();
/// The flag, else SAMERUN_BACKEND, else "auto". Throws kConfig naming the known words where the environment has another.
Setting<std::string> resolve_backend_word(const std::optional<std::string>& flag);
/// Looks for MPI where `word` and the number of ranks want it. Throws kLaunch where `word` is "mpi" and it cannot be had.
Backend find_backend(const Setting<std::string>& word, std::int64_t ranks);

}  // namespace samerun::cli
