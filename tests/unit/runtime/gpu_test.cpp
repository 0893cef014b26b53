// On a GPU; skipped where there is none. scripts/gpu_check runs them on a machine that has one.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "capture.h"
#include "compute_device.h"

namespace samerun::detail {
namespace {

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    compute_ = resolve_device("auto", 0);
    if (!compute_.gpu()) GTEST_SKIP() << compute_.found;
  }
  ComputeDevice compute_;
};

TEST_F(GpuTest, AnNcclGroupOfOneRankSumsToItself) {
  const auto backend = compute_.nccl->make_backend(c10::make_intrusive<c10d::HashStore>(), 0, 1, std::chrono::seconds(60));
  std::vector<at::Tensor> tensors{torch::arange(5, torch::TensorOptions().dtype(torch::kFloat).device(compute_.device))};
  backend->allreduce(tensors)->wait();
  EXPECT_TRUE(torch::equal(tensors[0].cpu(), torch::arange(5, torch::kFloat)));
}

TEST_F(GpuTest, DigestsNormsAndSketchesAreThoseOfTheSameValuesOnTheCpu) {
  torch::manual_seed(3);
  const auto values = torch::randn({40, 30});
  const CaptureOptions options{"raw", 0, 0, -1, true, true};
  const auto here = trace_of("t", values, options), there = trace_of("t", values.to(compute_.device), options);
  EXPECT_EQ(here.digest, there.digest);
  EXPECT_EQ(here.norm, there.norm);
  EXPECT_EQ(here.sketch, there.sketch);
}

TEST_F(GpuTest, Float64GradientsAreTheCpusUpToRounding) {
  torch::manual_seed(3);
  torch::nn::Sequential model(torch::nn::Linear(30, 40), torch::nn::Tanh(), torch::nn::Linear(40, 10));
  model->to(torch::kDouble);
  const auto data = torch::randn({16, 30}, torch::kDouble);
  const auto target = torch::randint(10, {16});
  const auto gradients = [&](c10::Device device) {
    model->to(device);
    model->zero_grad();
    torch::nn::functional::cross_entropy(model->forward(data.to(device)), target.to(device)).backward();
    std::vector<torch::Tensor> result;
    for (const auto& parameter : model->parameters()) result.push_back(parameter.grad().to(torch::kCPU));
    return result;
  };
  const auto here = gradients(torch::kCPU), there = gradients(compute_.device);
  for (std::size_t i = 0; i < here.size(); ++i)
    EXPECT_LE((here[i] - there[i]).norm().item<double>(), 1e-13 * here[i].norm().item<double>()) << "parameter " << i;
}

}  // namespace
}  // namespace samerun::detail
