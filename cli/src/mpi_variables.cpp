#include <algorithm>
#include <array>

#include "mpi_wireup.h"

namespace samerun::cli {
namespace {

/// Of mpirun (Open MPI, MPICH), srun, jsrun and prterun: who the process is, and whom it belongs to.
constexpr std::array kBeginnings{"PMIX_", "PMI_", "PMI2_", "OMPI_COMM_WORLD_", "OMPI_MCA_orte_",  "OMPI_MCA_ess",   "OMPI_MCA_pmix", "OMPI_MCA_prte",
                                 "PRTE_", "JSM_", "HYDI_", "HYDRA_",           "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr std::array kNames{"OMPI_UNIVERSE_SIZE",         "OMPI_COMMAND",          "OMPI_ARGV",
                            "OMPI_NUM_APP_CTX",           "OMPI_FIRST_RANKS",      "OMPI_APP_CTX_NUM_PROCS",
                            "OMPI_FILE_LOCATION",         "OMPI_MCA_schizo",       "OMPI_MCA_initial_wdir",
                            "OMPI_MCA_mpi_oversubscribe", "ORTE_SCHIZO_DETECTION", "OMPI_MCA_shmem_RUNTIME_QUERY_hint"};

}  // namespace

bool of_another_mpi_launcher(const std::string& variable) {
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](const char* beginning) { return variable.starts_with(beginning); }) ||
         std::any_of(kNames.begin(), kNames.end(), [&](const char* name) { return variable == name; });
}

}  // namespace samerun::cli
