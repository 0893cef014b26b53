#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <string>

namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace samerun::detail {

/// "2.30.7".
struct NcclVersion {
  int major = 0, minor = 0, patch = 0;
  bool operator==(const NcclVersion&) const = default;
  std::string text() const;
};

/// What the runtime asks of NCCL and CUDA. Implemented in a shared library of its own (runtime/nccl), for linking it would make every
/// program need gigabytes of CUDA libraries at its start; and by a fake in tests.
class NcclLibrary {
 public:
  virtual ~NcclLibrary() = default;
  /// Of the header that this library was compiled with: the layout of c10d's NCCL class depends on it.
  virtual NcclVersion header() const = 0;
  /// Of the NCCL that libtorch was built with.
  virtual NcclVersion libtorch() const = 0;
  /// GPUs that the driver shows this process; 0 where there is no driver.
  virtual int devices() const = 0;
  /// Collective over the store's ranks at the first collective call. Throws what c10d throws.
  virtual c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                                         std::chrono::milliseconds timeout) = 0;
};

/// Opens libtorch's CUDA library, then samerun_nccl: beside the program, in ../lib, where $SAMERUN_NCCL_LIBRARY names it, or where the loader
/// finds it. Throws kConfig: what is missing and what to do.
std::shared_ptr<NcclLibrary> open_nccl_library();

/// What is wrong with using `library` for a rank that is number `local_rank` on its host; throws kConfig: another NCCL than libtorch's, no GPU,
/// fewer GPUs than ranks.
void check_nccl_library(const NcclLibrary& library, int local_rank);

/// The one symbol of the shared library.
inline constexpr const char* kNcclEntry = "samerun_nccl_library";
using NcclEntry = NcclLibrary* (*)();

}  // namespace samerun::detail
