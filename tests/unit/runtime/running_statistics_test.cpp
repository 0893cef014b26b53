#include "running_statistics.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "launch_environment.h"

namespace samerun::detail {
namespace {

struct NormImpl : torch::nn::Module {
  explicit NormImpl(const torch::nn::BatchNormOptions& options) {
    norm = register_module("norm", torch::nn::BatchNorm1d(options));
    for (auto& parameter : parameters()) parameter.set_data(parameter.to(at::kDouble));
    for (auto& buffer : buffers()) {
      if (buffer.is_floating_point()) buffer.set_data(buffer.to(at::kDouble));
    }
  }
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Norm);

double distance(const Norm& a, const Norm& b) {
  return std::max((a->norm->running_mean - b->norm->running_mean).abs().max().item<double>(),
                  (a->norm->running_var - b->norm->running_var).abs().max().item<double>());
}

std::vector<torch::nn::BatchNormOptions> many_options() {
  return {torch::nn::BatchNormOptions(3), torch::nn::BatchNormOptions(3).momentum(0.7), torch::nn::BatchNormOptions(3).momentum(std::nullopt)};
}

torch::Tensor batch(int index) {
  torch::manual_seed(static_cast<std::uint64_t>(index));
  return torch::randn({5, 3}, at::kDouble) * (1 + index) + index;
}

/// Eight micro-batches in windows of three; `passes` forward passes in each; every third one in evaluation mode as it begins.
void expect_as_alone(int passes, bool late) {
  const auto communicator = make_communicator(LaunchInfo{}, 1);
  for (const auto& options : many_options()) {
    Norm alone(options), folded(options);
    RunningStatistics statistics(*folded);
    for (int i = 0; i < 8; ++i) {
      folded->train(!late || i % 3 != 0);
      statistics.begin();
      folded->train();
      for (int pass = 0; pass < passes; ++pass) {
        const auto rows = batch(10 * i + pass);
        EXPECT_TRUE(alone->norm->forward(rows).equal(folded->norm->forward(rows)));
      }
      statistics.end(true);
      if (i % 3 == 2) statistics.fold(*communicator);
    }
    statistics.fold(*communicator);
    EXPECT_LT(distance(alone, folded), 1e-9);
    EXPECT_TRUE(alone->norm->num_batches_tracked.equal(folded->norm->num_batches_tracked));
  }
}

TEST(RunningStatisticsTest, OneRanksStatisticsAreThoseOfPlainBatchNorm) {
  expect_as_alone(1, false);
}

TEST(RunningStatisticsTest, AModuleUsedTwiceInAMicroBatchCountsTwice) {
  expect_as_alone(2, false);
}

TEST(RunningStatisticsTest, AModuleSetToTrainingAfterTheBatchCameCountsToo) {
  expect_as_alone(1, true);
  expect_as_alone(2, true);
}

TEST(RunningStatisticsTest, AFillerAndAnAbandonedBatchLeaveTheStatisticsAsTheyWere) {
  const auto communicator = make_communicator(LaunchInfo{}, 1);
  Norm plain(torch::nn::BatchNormOptions(3)), folded(torch::nn::BatchNormOptions(3));
  RunningStatistics statistics(*folded);
  for (const bool training : {true, false}) {
    folded->train(training);
    statistics.begin();
    folded->train();
    folded->norm->forward(batch(1));
    statistics.end(/*counts=*/false);
    statistics.fold(*communicator);
    EXPECT_EQ(distance(plain, folded), 0);
    statistics.begin();
    folded->norm->forward(batch(2));
    statistics.abandon();
    EXPECT_EQ(distance(plain, folded), 0);
  }
  EXPECT_EQ(folded->norm->num_batches_tracked.item<std::int64_t>(), 0);
}

TEST(RunningStatisticsTest, AnEvaluationForwardPassReadsTheWholeStatistics) {
  Norm net(torch::nn::BatchNormOptions(3));
  net->norm->forward(batch(3));
  net->eval();
  const auto expected = net->norm->forward(batch(4));
  RunningStatistics statistics(*net);
  statistics.begin();
  EXPECT_TRUE(net->norm->forward(batch(4)).equal(expected));
}

}  // namespace
}  // namespace samerun::detail
