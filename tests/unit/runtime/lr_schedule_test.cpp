#include "accelerator_job.h"

namespace samerun {
namespace {

TEST(LrScheduleTest, WarmupRisesToTheRateAndStays) {
  auto parameter = torch::ones({1}).requires_grad_(true);
  torch::optim::SGD optimizer({parameter}, torch::optim::SGDOptions(0.8));
  auto schedule = linear_warmup(optimizer, 4);
  std::vector<double> rates;
  for (int i = 0; i < 6; ++i, schedule.step()) rates.push_back(optimizer.param_groups()[0].options().get_lr());
  EXPECT_EQ(rates, (std::vector<double>{0.2, 0.4, 0.8 * 0.75, 0.8, 0.8, 0.8}));
}

TEST(LrScheduleTest, DecayReachesZeroAtTheTotalAndNotBefore) {
  auto parameter = torch::ones({1}).requires_grad_(true);
  torch::optim::SGD optimizer({parameter}, torch::optim::SGDOptions(1.0));
  auto schedule = linear_warmup_decay(optimizer, 2, 6);
  std::vector<double> rates;
  for (int i = 0; i < 8; ++i, schedule.step()) rates.push_back(optimizer.param_groups()[0].options().get_lr());
  EXPECT_EQ(rates, (std::vector<double>{0.5, 1, 1, 0.75, 0.5, 0.25, 0, 0}));
}

TEST(LrScheduleTest, EveryGroupKeepsItsOwnBase) {
  auto first = torch::ones({1}).requires_grad_(true), second = torch::ones({1}).requires_grad_(true);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{first}, std::make_unique<torch::optim::AdamWOptions>(0.1));
  groups.emplace_back(std::vector<torch::Tensor>{second}, std::make_unique<torch::optim::AdamWOptions>(0.2));
  torch::optim::AdamW optimizer(groups);
  LrSchedule schedule(optimizer, [](std::int64_t step) { return step == 0 ? 1.0 : 0.5; });
  schedule.step();
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.05);
  EXPECT_EQ(optimizer.param_groups()[1].options().get_lr(), 0.1);
}

TEST(LrScheduleTest, SchedulesThatMakeNoSenseAreRefused) {
  auto parameter = torch::ones({1}).requires_grad_(true);
  torch::optim::SGD optimizer({parameter}, torch::optim::SGDOptions(1.0));
  EXPECT_REFUSED(linear_warmup_decay(optimizer, -1, 6), "warmup_steps");
  EXPECT_REFUSED(linear_warmup_decay(optimizer, 6, 6), "total_steps");
}

}  // namespace
}  // namespace samerun
