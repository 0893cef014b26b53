#include "samerun/profiler/efficiency.h"

#include <gtest/gtest.h>

#include <numeric>

namespace samerun::profiler {
namespace {

constexpr std::int64_t kMs = 1'000'000;

Phase phase_of(std::int64_t step, std::int64_t compute_ms, std::int64_t exposed_ms, std::int64_t other_ms = 0) {
  Phase phase;
  phase.step = step;
  phase.compute_ns = compute_ms * kMs;
  phase.exposed_ns = exposed_ms * kMs;
  phase.other_ns = other_ms * kMs;
  phase.wall_ns = (compute_ms + exposed_ms + other_ms) * kMs;
  return phase;
}

/// `steps` equal steps; rank r computes for compute_ms[r] and then waits until `step_ms` are over.
ProfiledRun run_of(std::int64_t steps, const std::vector<std::int64_t>& compute_ms, std::int64_t step_ms, std::int64_t samples) {
  ProfiledRun run;
  run.ranks = static_cast<int>(compute_ms.size());
  for (std::int64_t step = 0; step < steps; ++step) {
    run.samples[step] = samples;
    for (int rank = 0; rank < run.ranks; ++rank) {
      const auto compute = compute_ms[static_cast<std::size_t>(rank)];
      run.phases.push_back({rank, phase_of(step, compute, step_ms - compute)});
    }
  }
  return run;
}

double sum(const PartsMs& parts) {
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

TEST(StepProfileTest, TakesTheSlowestRankOfEachStep) {
  ProfiledRun run;
  run.ranks = 2;
  for (std::int64_t step = 0; step < 3; ++step) {
    run.samples[step] = 30;
    run.phases.push_back({0, phase_of(step, 4 + step, 2)});
    run.phases.push_back({1, phase_of(step, 2, 3 + step)});
  }
  const auto profile = profile_steps(run);
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->wall_ms, (std::vector<double>{6, 7, 8}));
  EXPECT_DOUBLE_EQ(profile->step_ms.median, 7);
  EXPECT_DOUBLE_EQ(profile->step_ms.p5, 6.1);
  EXPECT_DOUBLE_EQ(profile->step_ms.p95, 7.9);
  EXPECT_DOUBLE_EQ(profile->slowest_ms[1].median, 5);  // compute: rank 0's
  EXPECT_DOUBLE_EQ(profile->slowest_ms[2].median, 4);  // exposed: rank 1's
  EXPECT_NEAR(profile->samples_per_s, 30 / 7e-3, 1e-6);
}

TEST(StepProfileTest, LeavesOutTheFirstStepsAndThoseThatARankLacks) {
  auto run = run_of(40, {5, 5}, 6, 8);
  for (auto& row : run.phases) {
    if (row.phase.step < 5) row.phase = phase_of(row.phase.step, 900, 0);
  }
  run.phases.pop_back();
  const auto profile = profile_steps(run);
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->warmup_steps, 5);
  EXPECT_EQ(profile->wall_ms.size(), 34U);
  EXPECT_DOUBLE_EQ(profile->step_ms.p95, 6);
}

TEST(StepProfileTest, AShortRunLosesAQuarterToTheWarmUpAtMost) {
  EXPECT_EQ(profile_steps(run_of(8, {5}, 6, 8))->wall_ms.size(), 6U);
  EXPECT_EQ(profile_steps(run_of(1, {5}, 6, 8))->wall_ms.size(), 1U);
  EXPECT_FALSE(profile_steps(ProfiledRun{}));
}

TEST(StepProfileTest, MeansOfThePartsSumToTheMeanStep) {
  const auto profile = profile_steps(run_of(20, {5, 3, 2}, 6, 8));
  EXPECT_NEAR(sum(profile->mean_parts_ms), profile->mean_ms, 1e-9);
  EXPECT_NEAR(profile->mean_ms, 6, 1e-9);
}

TEST(StepProfileTest, LoadBalanceIsMeanOverLargestCompute) {
  EXPECT_DOUBLE_EQ(profile_steps(run_of(20, {4, 4}, 6, 8))->load_balance, 1);
  EXPECT_DOUBLE_EQ(profile_steps(run_of(20, {6, 2}, 6, 8))->load_balance, 4.0 / 6);
}

TEST(ScalingTest, SameSamplesAStepIsStrong) {
  const auto scaling = compare_speed(run_of(40, {12}, 12, 64), run_of(40, {3, 3, 3, 3}, 4, 64));
  ASSERT_TRUE(scaling);
  EXPECT_EQ(scaling->regime, Regime::kStrong);
  EXPECT_DOUBLE_EQ(scaling->efficiency, 12.0 / (4 * 4));
}

TEST(ScalingTest, SameSamplesAStepAndRankIsWeak) {
  const auto scaling = compare_speed(run_of(40, {10}, 10, 16), run_of(40, {10, 10, 10, 10}, 12, 64));
  ASSERT_TRUE(scaling);
  EXPECT_EQ(scaling->regime, Regime::kWeak);
  EXPECT_DOUBLE_EQ(scaling->efficiency, 10.0 / 12);
}

TEST(ScalingTest, AnotherBatchIsNeitherAndStillComparesSamplesASecondAndRank) {
  const auto scaling = compare_speed(run_of(40, {10}, 10, 16), run_of(40, {10, 10}, 10, 24));
  ASSERT_TRUE(scaling);
  EXPECT_EQ(scaling->regime, Regime::kNeither);
  EXPECT_DOUBLE_EQ(scaling->efficiency, 24.0 / 2 / 16);
}

TEST(ScalingTest, TheReferenceMayHaveSeveralRanks) {
  EXPECT_DOUBLE_EQ(compare_speed(run_of(40, {5, 5}, 6, 64), run_of(40, {2, 2, 2, 2}, 3, 64))->efficiency, 1);
}

TEST(ScalingTest, LostTimeIsGivenToTheParts) {
  // Ideal: 12 ms on one rank are 3 on each of four. One more goes to communication, one to slower compute.
  const auto scaling = compare_speed(run_of(40, {12}, 12, 64), run_of(40, {4, 4, 4, 4}, 5, 64));
  ASSERT_TRUE(scaling);
  EXPECT_NEAR(scaling->ideal_ms, 3, 1e-9);
  EXPECT_NEAR(scaling->lost_ms[1], 1, 1e-9);
  EXPECT_NEAR(scaling->lost_ms[2], 1, 1e-9);
  EXPECT_NEAR(sum(scaling->lost_ms), scaling->candidate.mean_ms - scaling->ideal_ms, 1e-9);
}

TEST(ScalingTest, TheIntervalHoldsTheEfficiencyAndIsNarrowForEqualSteps) {
  const auto equal = compare_speed(run_of(40, {12}, 12, 64), run_of(40, {5, 5}, 6, 64));
  EXPECT_DOUBLE_EQ(equal->efficiency_low, equal->efficiency);
  EXPECT_DOUBLE_EQ(equal->efficiency_high, equal->efficiency);

  auto restless = run_of(40, {5, 5}, 6, 64);
  for (auto& row : restless.phases) row.phase.wall_ns += row.phase.step * 37 % 11 * kMs / 4;
  const auto wide = compare_speed(run_of(40, {12}, 12, 64), restless);
  EXPECT_LT(wide->efficiency_low, wide->efficiency);
  EXPECT_GT(wide->efficiency_high, wide->efficiency);
  EXPECT_EQ(wide->efficiency_low, compare_speed(run_of(40, {12}, 12, 64), restless)->efficiency_low);
}

TEST(ScalingTest, NeedsStepsAndSamplesOfBoth) {
  EXPECT_FALSE(compare_speed(ProfiledRun{}, run_of(4, {5}, 6, 8)));
  EXPECT_FALSE(compare_speed(run_of(4, {5}, 6, 0), run_of(4, {5}, 6, 8)));
}

}  // namespace
}  // namespace samerun::profiler
