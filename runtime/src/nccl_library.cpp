#include "nccl_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "part_library.h"
#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

namespace fs = std::filesystem;

std::string last_error() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "unknown reason";
}

/// The folder of the shared object (or program) that holds `symbol`.
fs::path folder_of(const void* symbol) {
  Dl_info info{};
  if (::dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::canonical(info.dli_fname, ignored).parent_path();
}

fs::path libtorch_folder() {
  void* symbol = ::dlsym(RTLD_DEFAULT, "_ZN2at13globalContextEv");  // at::globalContext(), of libtorch_cpu; absent: let the loader search.
  return symbol != nullptr ? folder_of(symbol) : fs::path();
}

/// libtorch's CUDA kernels register themselves as their library is loaded; its symbols are what samerun_nccl is bound to.
void open_libtorch_cuda() {
  const fs::path beside = libtorch_folder() / "libtorch_cuda.so";
  std::error_code ignored;
  const std::string name = fs::exists(beside, ignored) ? beside.string() : "libtorch_cuda.so";
  if (::dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  throw Error(ErrorCode::kConfig,
              "a GPU was asked for, and this libtorch has no CUDA part that can be loaded: " + last_error() +
                  "; run on the CPU (--device cpu), or build against a libtorch with CUDA and install what it needs (SAMERUN_TORCH_DIR)");
}

}  // namespace

std::string NcclVersion::text() const {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::shared_ptr<NcclLibrary> open_nccl_library() {
  open_libtorch_cuda();
  std::string why;
  void* entry = open_part({"libsamerun_nccl.so", "SAMERUN_NCCL_LIBRARY", "nccl", kNcclEntry}, why);
  if (entry == nullptr)
    throw Error(ErrorCode::kConfig, "a GPU was asked for, and Samerun's GPU part is not there: " + why +
                                        "; build Samerun where a CUDA toolkit is installed, or name the file in SAMERUN_NCCL_LIBRARY");
  return {reinterpret_cast<NcclEntry>(entry)(), [](NcclLibrary*) {}};  // never closed: libtorch keeps pointers into it
}

void check_nccl_library(const NcclLibrary& library, int local_rank) {
  const auto header = library.header(), built = library.libtorch();
  if (header != built)
    throw Error(ErrorCode::kConfig, "Samerun's GPU part was compiled for NCCL " + header.text() + ", and libtorch for " + built.text() +
                                        ": their objects differ in size; rebuild Samerun against the headers of the NCCL that this libtorch names");
  const int devices = library.devices();
  if (devices == 0)
    throw Error(ErrorCode::kConfig, "a GPU was asked for, and the driver shows none; run on the CPU (--device cpu), or see that nvidia-smi lists one",
                {}, local_rank);
  if (local_rank >= devices)
    throw Error(ErrorCode::kConfig,
                "this host has " + std::to_string(devices) + (devices == 1 ? " GPU" : " GPUs") +
                    " for its ranks, and each rank needs its own; start at most " + std::to_string(devices) + " ranks here",
                {{"local_rank", std::to_string(local_rank)}});
}

}  // namespace samerun::detail
