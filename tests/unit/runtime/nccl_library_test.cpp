// Without a GPU: what is refused, and in which words. With one, scripts/gpu_check runs the rest.
#include "nccl_library.h"

#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <functional>

#include "communicator.h"
#include "launch_environment.h"
#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

class FakeNccl final : public NcclLibrary {
 public:
  NcclVersion header() const override { return header_version; }
  NcclVersion libtorch() const override { return {2, 30, 7}; }
  int devices() const override { return gpus; }
  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>&, int, int, std::chrono::milliseconds) override {
    throw std::runtime_error("ncclInvalidUsage: Duplicate GPU detected\nLast error: second line");
  }

  NcclVersion header_version{2, 30, 7};
  int gpus = 1;
};

std::string refusal(ErrorCode code, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(NcclLibraryTest, AnotherNcclThanLibtorchsIsRefusedWithBothVersions) {
  FakeNccl nccl;
  nccl.header_version = {2, 28, 3};
  const auto text = refusal(ErrorCode::kConfig, [&] { check_nccl_library(nccl, 0); });
  EXPECT_NE(text.find("compiled for NCCL 2.28.3, and libtorch for 2.30.7"), std::string::npos) << text;
}

TEST(NcclLibraryTest, NoGpuAndTooFewAreSaid) {
  FakeNccl nccl;
  check_nccl_library(nccl, 0);
  EXPECT_NE(refusal(ErrorCode::kConfig, [&] { check_nccl_library(nccl, 1); }).find("has 1 GPU for its ranks"), std::string::npos);
  nccl.gpus = 0;
  EXPECT_NE(refusal(ErrorCode::kConfig, [&] { check_nccl_library(nccl, 0); }).find("the driver shows none"), std::string::npos);
}

TEST(NcclLibraryTest, ALibtorchWithoutItsCudaPartIsSaid) {
  std::shared_ptr<NcclLibrary> library;
  try {
    library = open_nccl_library();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConfig);
    EXPECT_NE(std::string(error.what()).find("run on the CPU (--device cpu)"), std::string::npos) << error.what();
    return;
  }
  EXPECT_EQ(library->header(), library->libtorch());  // Where it can be opened, it is the right one.
}

}  // namespace
}  // namespace samerun::detail
