#pragma once

#include <vector>

#include "samerun/core/event.h"

namespace samerun::recorder {

/// Facts of this host and process: kernel, CPU model and flags, cores, cgroup limit, affinity, memory, file system of the
/// record, compiler and flags of this build, linked library versions, allow-listed environment variables (OMP_*, MKL_*,
/// GLOO_*, NCCL_*, SLURM_*, SAMERUN_*, ..., values of names like *TOKEN*, *KEY*, *PASS*, *SECRET* redacted).
/// Each probe stands alone: one that fails gives an empty value and why. Never throws.
std::vector<EnvironmentFact> probe_environment();

}  // namespace samerun::recorder
