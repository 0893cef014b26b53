#include "pair_plan.h"

#include <gtest/gtest.h>

#include "mpi_runs.h"
#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

using Precision = PairPlan::Precision;

PairPlan plan(const PairOptions& options = {}) {
  RunSettings settings;
  settings.ranks = Setting<std::int64_t>(4, Origin::kArgument);
  settings.threads = Setting<std::int64_t>(2, Origin::kDefault);
  return PairPlan(options, settings, "abcd", "/captures");
}

std::string value(const LaunchSpec& spec, const std::string& name) {
  const auto found = spec.env.find("SAMERUN_" + name);
  return found != spec.env.end() ? found->second : "unset";
}

TEST(PairPlanTest, TheReferenceReplaysTheCandidatesPlanOnOneRank) {
  const LaunchSpec candidate = plan().candidate(Precision::kNative), reference = plan().reference(Precision::kNative, 17);
  EXPECT_EQ(candidate.world_size, 4);
  EXPECT_EQ(value(candidate, "REPLAY_WORLD"), "unset");
  EXPECT_EQ(value(candidate, "LOCKED_STEPS"), "0");
  EXPECT_EQ(value(candidate, "CAPTURE_TO"), "/captures/candidate");
  EXPECT_EQ(reference.world_size, 1);
  EXPECT_EQ(value(reference, "REPLAY_WORLD"), "4");
  EXPECT_EQ(value(reference, "LOCKED_OF"), "17");
  EXPECT_EQ(value(reference, "LOCKED_FROM"), "/captures/candidate");
  EXPECT_EQ(value(reference, "CAPTURE_TO"), "unset");
}

TEST(PairPlanTest, AllRunsHaveTheSameThreads) {
  for (const LaunchSpec& spec : {plan().candidate(Precision::kNative), plan().reference(Precision::kFloat64, 3), plan().rerun(2)}) {
    EXPECT_EQ(spec.threads, 2);
    EXPECT_EQ(spec.group_id, "abcd");
    EXPECT_TRUE(spec.to_log);
  }
}

TEST(PairPlanTest, AllRunsAreToldTheSameBackend) {
  RunSettings settings;
  settings.ranks = Setting<std::int64_t>(4, Origin::kArgument);
  settings.threads = Setting<std::int64_t>(2, Origin::kDefault);
  settings.backend.word = Setting<std::string>("mpi", Origin::kArgument);
  settings.backend.mpi_library = "/lib/libsamerun_mpi.so";
  settings.backend.mpi = std::make_shared<MpiRuns>(nullptr, true);
  const PairPlan wired({}, settings, "abcd", "/captures");
  for (const LaunchSpec& spec : {wired.candidate(Precision::kNative), wired.reference(Precision::kFloat64, 3), wired.rerun(2)}) {
    EXPECT_EQ(value(spec, "BACKEND"), "mpi");
    EXPECT_EQ(value(spec, "MPI_LIBRARY"), "/lib/libsamerun_mpi.so");
    EXPECT_EQ(spec.mpi, settings.backend.mpi);
  }
}

TEST(PairPlanTest, ShadowsRunInFloat64AndAreBounded) {
  PairOptions options;
  options.shadow_steps = 50;
  options.steps = 3;
  const LaunchSpec wide = plan(options).candidate(Precision::kFloat64);
  EXPECT_EQ(wide.role, "candidate64");
  EXPECT_EQ(value(wide, "PRECISION"), "float64");
  EXPECT_EQ(value(wide, "SHADOW"), "20:50");
  EXPECT_EQ(value(wide, "STOP_AFTER_STEPS"), "unset");
  EXPECT_EQ(value(wide, "CAPTURE_TO"), "/captures/candidate64");
  EXPECT_EQ(value(plan(options).candidate(Precision::kNative), "STOP_AFTER_STEPS"), "3");
}

TEST(PairPlanTest, ReexecutionsAreNumberedAndNotLocked) {
  const LaunchSpec rerun = plan().rerun(3);
  EXPECT_EQ(rerun.role, "rerun64-3");
  EXPECT_EQ(value(rerun, "VARIATION"), "3");
  EXPECT_EQ(value(rerun, "LOCKED_STEPS"), "unset");
  EXPECT_EQ(value(rerun, "LOCKED_OF"), "unset");
}

TEST(PairPlanTest, AVariableOfOneSideStaysThere) {
  PairOptions options;
  options.candidate_env = {"SAMERUN_FAULT=G05:rank=1"};
  EXPECT_EQ(value(plan(options).candidate(Precision::kFloat64), "FAULT"), "G05:rank=1");
  EXPECT_EQ(value(plan(options).reference(Precision::kNative, 1), "FAULT"), "unset");
  EXPECT_EQ(value(plan(options).rerun(1), "FAULT"), "unset");
  options.candidate_env = {"=x"};
  EXPECT_THROW(plan(options), Error);
}

}  // namespace
}  // namespace samerun::cli
