#include "optimizer_replay.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>

#include "optimizer_state.h"

namespace samerun::detail {
namespace {

using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

double relative(const torch::Tensor& a, const torch::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

/// Five steps of libtorch's optimizer in float64, each replayed from the state before it.
void expect_replayed(const std::string& what, const MakeOptimizer& make) {
  SCOPED_TRACE(what);
  torch::manual_seed(1);
  auto parameter = torch::randn({7, 3}, at::kDouble).requires_grad_(true);
  const std::vector<NamedTensor> named{{"weight", parameter}};
  const auto optimizer = make({parameter});
  for (std::int64_t step = 0; step < 5; ++step) {
    parameter.mutable_grad() = torch::randn({7, 3}, at::kDouble);
    const auto group = group_settings(*optimizer, step).at(0);
    const auto state = parameter_states(*optimizer, named).at(0);
    ReplayInput input{parameter.detach().clone(), parameter.grad().clone(), {}, {}, step};
    if (state.moment1.defined()) input.moment1 = state.moment1.detach().clone();
    if (state.moment2.defined()) input.moment2 = state.moment2.detach().clone();
    if (state.moment2.defined()) {
      EXPECT_EQ(state.step, step);
    }
    const auto replayed = replay_optimizer(group, input);
    ASSERT_TRUE(replayed.has_value());
    optimizer->step();
    const auto after = parameter_states(*optimizer, named).at(0);
    EXPECT_LT(relative(input.parameter + replayed->update, parameter.detach()), 1e-14) << "step " << step;
    EXPECT_EQ(replayed->moment1.defined(), after.moment1.defined());
    if (after.moment1.defined()) {
      EXPECT_LT(relative(replayed->moment1, after.moment1), 1e-14) << "step " << step;
    }
    if (after.moment2.defined()) {
      EXPECT_LT(relative(replayed->moment2, after.moment2), 1e-14) << "step " << step;
    }
  }
}

template <class Optimizer, class Settings>
MakeOptimizer with(Settings settings) {
  return [settings](std::vector<torch::Tensor> parameters) { return std::make_unique<Optimizer>(std::move(parameters), settings); };
}

TEST(OptimizerReplayTest, AdamWIsReplayed) {
  expect_replayed("plain", with<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-2)));
  expect_replayed("without decay", with<torch::optim::AdamW>(torch::optim::AdamWOptions(1e-2).weight_decay(0)));
  expect_replayed("settings", with<torch::optim::AdamW>(torch::optim::AdamWOptions(0.3).weight_decay(0.2).betas({0.5, 0.7}).eps(1e-3)));
}

TEST(OptimizerReplayTest, AdamIsReplayed) {
  expect_replayed("plain", with<torch::optim::Adam>(torch::optim::AdamOptions(1e-2)));
  expect_replayed("decay", with<torch::optim::Adam>(torch::optim::AdamOptions(1e-2).weight_decay(0.1).betas({0.8, 0.9})));
}

TEST(OptimizerReplayTest, SgdIsReplayed) {
  expect_replayed("plain", with<torch::optim::SGD>(torch::optim::SGDOptions(0.1)));
  expect_replayed("decay", with<torch::optim::SGD>(torch::optim::SGDOptions(0.1).weight_decay(0.1)));
  expect_replayed("momentum", with<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9)));
  expect_replayed("dampening", with<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).dampening(0.3).weight_decay(0.1)));
  expect_replayed("nesterov", with<torch::optim::SGD>(torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01)));
}

TEST(OptimizerReplayTest, OptimizersThatAreNotReplayedSaySo) {
  auto parameter = torch::ones({2}, at::kDouble).requires_grad_(true);
  torch::optim::RMSprop rms({parameter}, 1e-2);
  torch::optim::AdamW amsgrad({parameter}, torch::optim::AdamWOptions(1e-2).amsgrad(true));
  for (torch::optim::Optimizer* optimizer : std::initializer_list<torch::optim::Optimizer*>{&rms, &amsgrad}) {
    const auto group = group_settings(*optimizer, 0).at(0);
    EXPECT_FALSE(replay_optimizer(group, {parameter.detach(), torch::ones({2}, at::kDouble), {}, {}, 0}).has_value()) << group.optimizer;
  }
}

TEST(OptimizerStateTest, SettingsAndStatesAreReadByGroup) {
  auto first = torch::ones({2}).requires_grad_(true), second = torch::ones({3}).requires_grad_(true), outside = torch::ones({1}).requires_grad_(true);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{first}, std::make_unique<torch::optim::AdamWOptions>(0.1));
  groups.emplace_back(std::vector<torch::Tensor>{second},
                      std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(0.2).weight_decay(0.5)));
  torch::optim::AdamW optimizer(groups);
  const auto settings = group_settings(optimizer, 4);
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[1].group, 1);
  EXPECT_EQ(settings[1].learning_rate, 0.2);
  EXPECT_EQ(settings[1].weight_decay, 0.5);
  EXPECT_EQ(settings[1].optimizer, "AdamW");
  EXPECT_EQ(settings[1].step, 4);
  set_learning_rate(optimizer, 1, 0.7);
  EXPECT_EQ(learning_rate(optimizer, 0), 0.1);
  EXPECT_EQ(learning_rate(optimizer, 1), 0.7);

  const std::vector<NamedTensor> named{{"outside", outside}, {"second", second}, {"first", first}};
  const auto before = parameter_states(optimizer, named);
  EXPECT_EQ(before[0].group, -1);
  EXPECT_EQ(before[1].group, 1);
  EXPECT_EQ(before[2].group, 0);
  EXPECT_FALSE(before[1].moment1.defined());
  first.mutable_grad() = torch::ones({2});
  second.mutable_grad() = torch::ones({3});
  optimizer.step();
  const auto after = parameter_states(optimizer, named);
  EXPECT_EQ(after[1].step, 1);
  EXPECT_EQ(after[1].moment1.sizes(), second.sizes());
  EXPECT_NE(moments_digest(before), moments_digest(after));
  EXPECT_EQ(moments_digest(after), moments_digest(parameter_states(optimizer, named)));
}

}  // namespace
}  // namespace samerun::detail
