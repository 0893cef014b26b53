// The part of Samerun that knows NCCL's and CUDA's headers.
#include "nccl_library.h"

#include <c10/cuda/CUDAFunctions.h>
#include <nccl.h>
#include <torch/csrc/cuda/nccl.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace samerun::detail {
namespace {

/// libtorch packs the version as major, minor, patch from the top.
NcclVersion unpacked(std::uint64_t version) {
  return {static_cast<int>(version >> 32), static_cast<int>((version >> 16) & 0xffff), static_cast<int>(version & 0xffff)};
}

class Library final : public NcclLibrary {
 public:
  NcclVersion header() const override { return {NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH}; }
  NcclVersion libtorch() const override { return unpacked(torch::cuda::nccl::version()); }
  int devices() const override { return c10::cuda::device_count(); }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                                                 std::chrono::milliseconds timeout) override {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, options);
  }
};

}  // namespace
}  // namespace samerun::detail

extern "C" __attribute__((visibility("default"))) samerun::detail::NcclLibrary* samerun_nccl_library() {
  static samerun::detail::Library library;
  return &library;
}
