#include "collective_backend.h"

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

using Kind = CollectiveBackend::Kind;

constexpr const char* kNotWired =
    "the ranks were not prepared for MPI: start them with `samerun launch --backend mpi`, with mpirun, or with srun --mpi=pmix";

CollectiveBackend over_mpi(const LaunchInfo& launch) {
  if (!launch.wired_for_mpi) throw Error(ErrorCode::kConfig, kNotWired, {{"launcher", launch.source}}, launch.rank);
  CollectiveBackend backend;
  backend.mpi = open_mpi_library();
  backend.kind = Kind::kMpi;
  backend.why = backend.mpi->version();
  return backend;
}

CollectiveBackend over_gloo(const std::string& why) {
  CollectiveBackend backend;
  backend.kind = Kind::kGloo;
  backend.why = why;
  return backend;
}

CollectiveBackend over_nccl(const ComputeDevice& compute) {
  CollectiveBackend backend;
  backend.kind = Kind::kNccl;
  backend.nccl = compute.nccl;
  backend.why = compute.found;
  return backend;
}

/// Ranks of one host decide alike; those of several might not, as one host may lack what another has.
CollectiveBackend best_of(const LaunchInfo& launch) {
  if (!launch.wired_for_mpi) return over_gloo(kNotWired);
  if (launch.local_world_size != launch.world_size) return over_gloo("ranks on several hosts take MPI when told to (--backend mpi)");
  try {
    return over_mpi(launch);
  } catch (const Error& error) {
    return over_gloo(error.what());
  }
}

}  // namespace

CollectiveBackend resolve_backend(const std::string& wanted, const LaunchInfo& launch, const ComputeDevice& compute) {
  const bool known = wanted == "auto" || wanted == "gloo" || wanted == "mpi" || wanted == "nccl";
  if (!known) throw Error(ErrorCode::kConfig, "backend must be gloo, mpi, nccl or auto, not '" + wanted + "'");
  if (launch.world_size == 1) return {};
  if (compute.gpu()) {
    if (wanted == "auto" || wanted == "nccl") return over_nccl(compute);
    throw Error(ErrorCode::kConfig, "the backend " + wanted + " carries tensors on the CPU, and this rank computes on " + compute.device.str() +
                                        "; choose --backend nccl or auto, or --device cpu");
  }
  if (wanted == "nccl")
    throw Error(ErrorCode::kConfig, "the backend nccl needs a GPU for each rank, and this rank computes on the CPU; set --device cuda");
  if (wanted == "mpi") return over_mpi(launch);
  return wanted == "gloo" ? over_gloo("as asked for") : best_of(launch);
}

std::string name_of(CollectiveBackend::Kind kind) {
  switch (kind) {
    case Kind::kGloo:
      return "gloo";
    case Kind::kMpi:
      return "mpi";
    case Kind::kNccl:
      return "nccl";
    default:
      return "none";
  }
}

}  // namespace samerun::detail
