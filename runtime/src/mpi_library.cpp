#include "mpi_library.h"

#include "part_library.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"

namespace samerun::detail {

std::shared_ptr<MpiLibrary> open_mpi_library() {
  std::string why;
  void* entry = open_part({"libsamerun_mpi.so", env::kMpiLibrary, "mpi", kMpiEntry}, why);
  if (entry == nullptr)
    throw Error(ErrorCode::kConfig,
                "MPI was asked for, and Samerun's MPI part cannot be opened: " + why +
                    "; install Open MPI (apt-get install libopenmpi3; libopenmpi-dev to build Samerun with it), or choose --backend gloo");
  return {reinterpret_cast<MpiEntry>(entry)(), [](MpiLibrary*) {}};  // never closed: MPI cannot be started twice
}

}  // namespace samerun::detail
