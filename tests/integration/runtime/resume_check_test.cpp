// `samerun resume-check` and `samerun resume` on a program that has all that a resumed run can lose.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "ranks.h"
#include "samerun/recorder/reader.h"

namespace samerun::ranks_test {
namespace {

Words check_words(const Words& flags, const Words& words) {
  Words all{"resume-check", "-n", "2", "--threads", "1"};
  all.insert(all.end(), flags.begin(), flags.end());
  all.insert(all.end(), {"--", kCheckpointFixturePath, "saved"});
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

TEST(ResumeCheckTest, AProgramThatKeepsAllIsTheSameAtEveryPoint) {
  Bench bench;
  bench.env["SAMERUN_ACCUMULATION_STEPS"] = "2";
  const Ended ended = bench.run(check_words({}, {"steplr", "workers=2"}));
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  EXPECT_TRUE(ended.out.starts_with("same ")) << ended.out;
  EXPECT_EQ(ended.out.find("not exercised"), std::string::npos) << ended.out;
  std::set<std::string> roles;
  const recorder::Reader reader(bench.record());
  for (const recorder::RunRow& run : reader.runs()) {
    roles.insert(run.role);
    EXPECT_EQ(run.status == "stopped" && !run.complete, run.role.starts_with("saving-")) << run.role << run.status;
  }
  EXPECT_EQ(roles, (std::set<std::string>{"straight", "saving-1", "saving-2", "saving-3", "resumed-1", "resumed-2", "resumed-3", "cold-1", "cold-2",
                                          "cold-3"}));
  EXPECT_FALSE(std::filesystem::exists(bench.file("saved/save-at"))) << "a checkpoint was left behind";
}

TEST(ResumeCheckTest, AnObjectThatIsNotSavedIsADifferenceAtItsPoint) {
  Bench bench;
  const Ended ended = bench.run(check_words({"--points", "4"}, {"no-object"}));
  EXPECT_EQ(ended.code, 1) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("metric error is not in run 3"), std::string::npos) << ended.out;
}

TEST(ResumeCheckTest, AProgramThatForgetsToLoadIsToldTheLine) {
  Bench bench;
  const Ended ended = bench.run(check_words({"--points", "4"}, {"no-load"}));
  EXPECT_EQ(ended.code, 4) << ended.out << ended.err;
  EXPECT_NE(ended.err.find("if (accelerator.resuming()) accelerator.load_state();"), std::string::npos) << ended.err;
}

TEST(ResumeCheckTest, APointBeyondTheProgramsEndIsSaid) {
  Bench bench;
  const Ended ended = bench.run(check_words({"--points", "4,1000"}, {}));
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find("--points has 1000"), std::string::npos) << ended.err;
}

TEST(ResumeCheckTest, AKilledRunIsResumedWithItsSettingsAndHasTheBitsOfTheStraightOne) {
  Bench bench;
  const Words program{"--", kCheckpointFixturePath, "saved", "save-epochs"};
  Words launch{"launch", "-n", "2", "--threads", "1", "--seed", "5"};
  launch.insert(launch.end(), program.begin(), program.end());
  ASSERT_EQ(bench.run(launch).code, 0);
  std::filesystem::remove_all(bench.file("saved"));
  bench.env["SAMERUN_KILL_AT"] = "12";
  const Ended killed = bench.run(launch);
  EXPECT_EQ(killed.code, 3);
  EXPECT_TRUE(killed.err.ends_with("\nto go on from step 9: samerun resume 2\n")) << killed.err;
  bench.env.erase("SAMERUN_KILL_AT");
  ASSERT_EQ(bench.run({"resume", "2"}).code, 0);
  const recorder::Reader reader(bench.record());
  const auto straight = reader.steps(1), resumed = reader.steps(3);
  ASSERT_FALSE(resumed.empty());
  EXPECT_EQ(resumed.front().step.step, 9);
  ASSERT_EQ(straight.back().step.step, resumed.back().step.step);
  EXPECT_EQ(straight.back().step.root_after, resumed.back().step.root_after);
  EXPECT_EQ(reader.run(3)->parent_id, 2);
}

}  // namespace
}  // namespace samerun::ranks_test
