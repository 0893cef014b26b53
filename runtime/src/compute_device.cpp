#include "compute_device.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

ComputeDevice gpu_of(int local_rank) {
  ComputeDevice chosen;
  chosen.nccl = open_nccl_library();
  check_nccl_library(*chosen.nccl, local_rank);
  chosen.device = c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(local_rank));
  c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).setDevice(chosen.device);
  chosen.found = chosen.device.str() + ", NCCL " + chosen.nccl->libtorch().text();
  return chosen;
}

}  // namespace

ComputeDevice resolve_device(const std::string& wanted, int local_rank) {
  ComputeDevice cpu;
  cpu.found = "cpu";
  if (wanted == "cpu") return cpu;
  if (wanted == "cuda") return gpu_of(local_rank);
  if (wanted != "auto") throw Error(ErrorCode::kConfig, "device must be cpu, cuda or auto, not '" + wanted + "'");
  try {
    return gpu_of(local_rank);
  } catch (const Error& error) {
    cpu.found = std::string("cpu: ") + error.what();
  }
  return cpu;
}

}  // namespace samerun::detail
