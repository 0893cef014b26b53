#pragma once

#include <memory>
#include <string>

#include "compute_device.h"
#include "launch_environment.h"
#include "mpi_library.h"

namespace samerun::detail {

/// What carries a rank's collectives.
struct CollectiveBackend {
  enum class Kind { kNone, kGloo, kMpi, kNccl };
  Kind kind = Kind::kNone;
  std::shared_ptr<MpiLibrary> mpi;    ///< Set where kind is kMpi; not started.
  std::shared_ptr<NcclLibrary> nccl;  ///< Set where kind is kNccl; texts and counts go by Gloo then.
  std::string why;                    ///< In words, for the record: what was found, and why not more.
};

/// `wanted`: "gloo", "mpi", "nccl" or "auto": NCCL on a GPU; on the CPU MPI, where the launcher has prepared it for the ranks of one host and
/// Samerun's MPI part can be opened; else Gloo. None where there is one rank. Throws kConfig: another word, one that does not fit the device, an MPI
/// that cannot be had.
CollectiveBackend resolve_backend(const std::string& wanted, const LaunchInfo& launch, const ComputeDevice& compute);

/// "none", "gloo", "mpi", "nccl".
std::string name_of(CollectiveBackend::Kind kind);

}  // namespace samerun::detail
