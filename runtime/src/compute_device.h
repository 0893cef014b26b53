#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <string>

#include "nccl_library.h"

namespace samerun::detail {

/// Where a rank computes.
struct ComputeDevice {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::shared_ptr<NcclLibrary> nccl;  ///< Null on the CPU.
  std::string found;                  ///< In words, for the record: what "auto" found, and why not more.

  bool gpu() const { return nccl != nullptr; }
};

/// `wanted`: "cpu", "cuda" or "auto" (a GPU where one can be used). A GPU becomes the process's current one. Throws kConfig: another word;
/// for "cuda" what open_nccl_library() and check_nccl_library() throw.
ComputeDevice resolve_device(const std::string& wanted, int local_rank);

}  // namespace samerun::detail
