#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace samerun::cli {

/// Wires the ranks of a run up for Open MPI: a PMIx server in the launcher's process, so that the launcher starts the ranks itself, as it
/// does without MPI. Implemented in a shared library of its own (cli/mpi), so that `samerun` runs where no MPI is installed.
class MpiWireup {
 public:
  virtual ~MpiWireup() = default;
  /// "Open MPI 4.1.4": what the ranks will load.
  virtual std::string version() const = 0;
  /// Starts the server if it does not run yet, with `folder` for its files, and makes a job known. Returns what each rank's environment must
  /// hold, by rank. Throws kLaunch.
  virtual std::vector<std::map<std::string, std::string>> begin_job(const std::string& name, int world_size, const std::string& folder) = 0;
  /// The job's processes have ended.
  virtual void end_job(const std::string& name) = 0;
};

/// Opens libsamerun_pmix.so beside the program or in ../lib. Throws kConfig: what is missing and what to install.
std::shared_ptr<MpiWireup> open_mpi_wireup();

/// Variables of another MPI launcher that a rank must not inherit: PMIX_*, PMI_*, OMPI_COMM_WORLD_*, OMPI_MCA_orte_*, OMPI_MCA_ess*, ...
/// A user's own settings (OMPI_MCA_btl and the like) are kept.
bool of_another_mpi_launcher(const std::string& variable);

/// The one symbol of the shared library.
inline constexpr const char* kPmixEntry = "samerun_mpi_wireup";
using PmixEntry = MpiWireup* (*)();

}  // namespace samerun::cli
