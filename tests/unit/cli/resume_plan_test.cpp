#include "resume_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/attach.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"

namespace samerun::cli {
namespace {

ResumePlan plan(const std::map<std::string, std::string>& extra = {}) {
  RunSettings settings;
  settings.ranks = Setting<std::int64_t>(3, Origin::kArgument);
  settings.threads = Setting<std::int64_t>(2, Origin::kDefault);
  settings.seed = Setting<std::string>("7", Origin::kArgument);
  return ResumePlan({"train", "--fast"}, settings, "abcd", "/checks", extra);
}

std::string value(const LaunchSpec& spec, const std::string& name) {
  const auto found = spec.env.find("SAMERUN_" + name);
  return found != spec.env.end() ? found->second : "unset";
}

TEST(ResumePlanTest, AllRunsAreAskedForTheSame) {
  for (const LaunchSpec& spec :
       {plan().straight(0), plan().saving(1, {3, 0}, 9), plan().resumed(1, "/saved", 9), plan().cold(1, "/saved", {3, 0}, 9)}) {
    EXPECT_EQ(spec.command, (std::vector<std::string>{"train", "--fast"}));
    EXPECT_EQ(spec.world_size, 3);
    EXPECT_EQ(spec.threads, 2);
    EXPECT_EQ(spec.group_id, "abcd");
    EXPECT_EQ(value(spec, "SEED"), "7");
    EXPECT_EQ(value(spec, "CHECKPOINTS"), "off");
    EXPECT_TRUE(spec.to_log);
    for (const char* name : {env::kResumeFrom, env::kSaveAt, env::kKillAt, env::kPoison, env::kLoadOnly, env::kStopAfter})
      EXPECT_NE(std::find(spec.unset.begin(), spec.unset.end(), name), spec.unset.end()) << name;
  }
}

TEST(ResumePlanTest, TheStraightRunIsBounded) {
  EXPECT_EQ(value(plan().straight(0), "SHADOW"), "6:200");
  EXPECT_EQ(value(plan().straight(0), "STOP_AFTER_STEPS"), "unset");
  EXPECT_EQ(value(plan().straight(12), "STOP_AFTER_STEPS"), "12");
  EXPECT_EQ(value(plan().straight(12), "SHADOW"), "unset");
}

TEST(ResumePlanTest, OneRunSavesAndIsKilledAndNewProcessesLoadPoisoned) {
  const LaunchSpec saving = plan().saving(2, {3, 1}, 9), resumed = plan().resumed(2, "/saved", 9);
  EXPECT_EQ(saving.role, "saving-2");
  EXPECT_EQ(value(saving, "SAVE_AT"), "3+1");
  EXPECT_EQ(value(saving, "KILL_AT"), "5");
  EXPECT_EQ(value(saving, "CHECKPOINT_DIR"), "/checks/2");
  EXPECT_TRUE(saving.ends_by_sigkill);
  EXPECT_EQ(resumed.role, "resumed-2");
  EXPECT_EQ(value(resumed, "RESUME_FROM"), "/saved");
  EXPECT_EQ(value(resumed, "POISON"), "1");
  EXPECT_EQ(value(resumed, "STOP_AFTER_STEPS"), "9");
  EXPECT_EQ(value(resumed, "SAVE_AT"), "unset");
  EXPECT_FALSE(resumed.ends_by_sigkill);
}

TEST(ResumePlanTest, TheKillComesNoLaterThanTheEnd) {
  EXPECT_EQ(value(plan().saving(1, {8, 0}, 9), "KILL_AT"), "9");
  EXPECT_EQ(value(plan().cold(1, "/saved", {8, 0}, 9), "STOP_AFTER_STEPS"), "9");
}

TEST(ResumePlanTest, TheColdStartLoadsTheWeightsAloneAndIsNotPoisoned) {
  const LaunchSpec cold = plan().cold(1, "/saved", {3, 0}, 9);
  EXPECT_EQ(value(cold, "LOAD_ONLY"), "weights");
  EXPECT_EQ(value(cold, "POISON"), "unset");
  EXPECT_EQ(value(cold, "STOP_AFTER_STEPS"), "5");
}

TEST(ResumePlanTest, AVariableOfTheCheckReachesEveryRun) {
  const ResumePlan faulty = plan({{"SAMERUN_FAULT", "R06"}});
  for (const LaunchSpec& spec :
       {faulty.straight(0), faulty.saving(1, {3, 0}, 9), faulty.resumed(1, "/saved", 9), faulty.cold(1, "/saved", {3, 0}, 9)})
    EXPECT_EQ(value(spec, "FAULT"), "R06");
}

TEST(SavePointTest, PointsAreReadAndWrittenAlike) {
  const std::vector<SavePoint> points = parse_points("3,3+1,12");
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[1], (SavePoint{3, 1}));
  for (const SavePoint& point : points) EXPECT_EQ(parse_points(point.text()).at(0), point);
  EXPECT_EQ(parse_points("0+1").at(0), (SavePoint{0, 1}));
  for (const char* wrong : {"a", "3,,4", "3+", "+1", "0", "3+0", "-3", "3 4", "3,3", "99999999999999999999"})
    EXPECT_THROW(parse_points(wrong), Error) << wrong;
}

/// Writes a run of one rank: an epoch of `steps` windows of `window` micro-batches, `epochs` times, as far as `end` steps.
class ChoosePointsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "samerun-cli-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string choose(std::int64_t steps, std::int64_t window, std::int64_t end) {
    recorder::Store store(folder_ + "/record");
    const std::int64_t run = store.begin_run({"", "run", 1, {"/bin/true"}, "/", std::nullopt});
    ::setenv(env::kStaging, store.staging_folder(run).c_str(), 1);
    ::setenv(env::kRunId, std::to_string(run).c_str(), 1);
    ::setenv(env::kRank, "0", 1);
    write(steps, window, end);
    ::unsetenv(env::kStaging);
    store.end_run(run, "stopped", 0, "", {});
    std::string text;
    for (const SavePoint& point : choose_points(recorder::Reader(folder_ + "/record"), run)) text += (text.empty() ? "" : ",") + point.text();
    return text;
  }

 private:
  static void write(std::int64_t steps, std::int64_t window, std::int64_t end) {
    const auto observer = recorder::attach_from_env();
    observer->on_rank_start({});
    for (std::int64_t number = 0; number < end; ++number) {
      for (std::int64_t i = 0; i < window; ++i) {
        Shard shard;
        shard.purpose = "train";
        shard.step = number;
        shard.epoch = shard.pass = number / steps;
        shard.round = shard.global_batch = (number % steps) * window + i;
        observer->on_shard(shard);
      }
      Step step;
      step.step = number;
      observer->on_step(step);
    }
    observer->on_run_end({end, "stopped", ""});
  }

  std::string folder_;
};

TEST_F(ChoosePointsTest, WithinTheEpochWithinAWindowAndAtTheEpochsEnd) {
  EXPECT_EQ(choose(6, 3, 8), "3,4+1,6");
}

TEST_F(ChoosePointsTest, WindowsOfOneMicroBatchAreNotCut) {
  EXPECT_EQ(choose(6, 1, 8), "3,6");
}

TEST_F(ChoosePointsTest, AnEpochThatIsLongerThanTheRunHasNoEndToSaveAt) {
  EXPECT_EQ(choose(100, 2, 8), "4,5+1");
}

TEST_F(ChoosePointsTest, EpochsOfFewSteps) {
  EXPECT_EQ(choose(2, 2, 6), "1,1+1,2");
  EXPECT_EQ(choose(1, 4, 6), "0+2,1");
  EXPECT_EQ(choose(1, 1, 6), "1");
}

TEST_F(ChoosePointsTest, ARunWithoutStepsHasNoPoints) {
  EXPECT_EQ(choose(4, 2, 0), "");
}

}  // namespace
}  // namespace samerun::cli
