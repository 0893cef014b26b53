#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "samerun/core/error.h"

namespace samerun::cli {

/// What one rank's environment must hold.
using RankVariables = std::map<std::string, std::string>;

/// Wires the ranks of a run up for Open MPI: a PMIx server in the launcher's process, so that the launcher starts the ranks itself, as it
/// does without MPI. Implemented in a shared library of its own (cli/mpi), so that `samerun` runs where no MPI is installed. One in a process,
/// used by one thread; what has been destroyed cannot be made again.
class MpiWireup {
 public:
  virtual ~MpiWireup() = default;
  /// "Open MPI 4.1.4": what the ranks will load. Throws kConfig where it cannot be loaded.
  virtual std::string version() const = 0;
  /// Starts the server if it does not run yet, with `folder` for its files, and makes a job known, whose ranks' files go to `folder`/`name`.
  /// Returns what each rank's environment must hold, by rank. Several jobs may go on at a time. Throws kLaunch.
  virtual std::vector<RankVariables> begin_job(const std::string& name, int world_size, const std::string& folder) = 0;
  /// The job's processes have ended. Throws kLaunch.
  virtual void end_job(const std::string& name) = 0;
};

/// MPI cannot be had on this machine: kConfig; the message says what to install.
class MpiMissing : public Error {
 public:
  MpiMissing(std::string in_short, const std::string& message) : Error(ErrorCode::kConfig, message), in_short_(std::move(in_short)) {}
  /// "Open MPI is not installed": for a line that says what is used instead.
  const std::string& in_short() const { return in_short_; }

 private:
  std::string in_short_;
};

/// Opens libsamerun_pmix.so beside the program or in ../lib, and looks for Open MPI. Throws MpiMissing.
std::shared_ptr<MpiWireup> open_mpi_wireup();

/// The file of the ranks' MPI part: SAMERUN_MPI_LIBRARY, else libsamerun_mpi.so beside the program, in ../lib or where a build folder has it.
/// Throws MpiMissing where there is none.
std::string find_mpi_library();

/// Variables of another MPI launcher that a rank must not inherit: PMIX_*, PMI_*, OMPI_COMM_WORLD_*, OMPI_MCA_orte_*, OMPI_MCA_ess*, ...
/// A user's own settings (OMPI_MCA_btl and the like) are kept.
bool of_another_mpi_launcher(const std::string& variable);

/// The one symbol of the shared library. What it returns is the caller's.
inline constexpr const char* kPmixEntry = "samerun_mpi_wireup";
using PmixEntry = MpiWireup* (*)();

}  // namespace samerun::cli
