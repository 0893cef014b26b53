// Ranks that do not agree, or one of which fails: everyone ends, with the reason.
#include <gtest/gtest.h>

#include "ranks.h"

namespace samerun::ranks_test {
namespace {

/// The program fails, and the launcher's output says why.
void expect_failure(const Ended& ended, const Words& reasons) {
  EXPECT_EQ(ended.code, 3);
  EXPECT_EQ(ended.err.find("GLHF"), std::string::npos) << "an error of Gloo came out as it was: " << ended.err;
  for (const std::string& reason : reasons) EXPECT_NE(ended.err.find(reason), std::string::npos) << reason << " is not in: " << ended.err;
}

TEST(AgreementTest, ModelsOfOtherShapesAreAnErrorThatNamesTheTensorAndBothShapes) {
  for (const int n : {2, 3})
    expect_failure(run(n, {"model_differs"}),
                   {"the models differ over ranks", "first.weight float32 [5,3,]", "first.weight float32 [6,3,]", "rank 1"});
}

TEST(AgreementTest, DatasetsOfOtherSizesAreAnErrorThatNamesBothSizes) {
  expect_failure(run(2, {"dataset_differs"}), {"the datasets differ over ranks", "'size=8'", "'size=9'"});
}

TEST(AgreementTest, LoadersOfOtherOptionsAreAnErrorThatNamesTheOption) {
  expect_failure(run(2, {"loader_differs"}), {"the loaders' options differ over ranks", "'batch_size=2'", "'batch_size=4'"});
}

TEST(AgreementTest, AParameterThatOneRankLeavesOutIsAnErrorThatNamesItAndNobodyHangs) {
  for (const char* rank : {"0", "1"}) expect_failure(run(2, {"unused", rank}), {"reached no gradient for branch;", "find_unused_parameters"});
}

TEST(AgreementTest, AParameterThatAllRanksLeaveOutIsAnErrorThatNamesIt) {
  expect_failure(run(2, {"unused", "-1"}), {"reached no gradient for branch;"});
}

TEST(AgreementTest, AParameterLeftOutOnlyAtTheWindowsEndIsNamedToo) {
  expect_failure(run(2, {"unused", "1", "1"}, {{"SAMERUN_ACCUMULATION_STEPS", "2"}}), {"reached no gradient for branch;"});
}

TEST(AgreementTest, WithUnusedParametersAllowedASkippedBranchTrainsAsOnOneRank) {
  for (const char* micro : {"-1", "0", "1"}) {
    const Words words{"unused", "1", micro};
    const std::map<std::string, std::string> env{{"SAMERUN_ACCUMULATION_STEPS", "2"}, {"FIXTURE_FIND_UNUSED", "1"}};
    const Ended ended = run(2, words, env);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(values(ended, 0, "gradient"), values(ended, 1, "gradient")) << "micro " << micro;
    EXPECT_EQ(values(ended, 0, "state"), values(ended, 1, "state")) << "micro " << micro;
  }
}

TEST(AgreementTest, ABranchThatAllRanksSkipInSomeMicroBatchesTrainsAsOnOneRank) {
  for (const char* micro : {"0", "1"}) {
    const Ended two = run(2, {"unused", "-1", micro}, {{"SAMERUN_ACCUMULATION_STEPS", "2"}, {"FIXTURE_FIND_UNUSED", "1"}});
    ASSERT_EQ(two.code, 0) << two.err;
    const Words gradients = values(two, 0, "gradient");
    EXPECT_EQ(gradients, values(two, 1, "gradient"));
    for (const std::string& gradient : gradients) EXPECT_EQ(numbers(gradient).size(), 2U) << "micro " << micro << ": " << gradient;
  }
}

TEST(AgreementTest, ARankThatThrowsEndsAllRanksWithItsMessage) {
  for (const int n : {2, 4}) {
    const Ended ended = run(n, {"throws"});
    expect_failure(ended, {"samerun: error: the last rank gives up", "rank " + std::to_string(n - 1)});
  }
}

TEST(AgreementTest, ARankThatExitsEndsAllRanks) {
  expect_failure(run(2, {"leaves"}), {"rank 1"});
}

TEST(AgreementTest, ARankThatHangsEndsAllRanksAtTheTimeLimit) {
  expect_failure(run(2, {"hangs"}, {{"SAMERUN_TIMEOUT_S", "2"}}),
                 {"waited too long for another rank; every rank must make the same collective calls", "[rank 0]"});
}

TEST(AgreementTest, ASecondAcceleratorIsAnErrorOnEveryRank) {
  expect_failure(run(2, {"two_accelerators"}), {"a process has one Accelerator; keep the first and pass it on"});
}

TEST(AgreementTest, SettingsThatDifferAreAnErrorThatNamesThem) {
  // The program finds its rank in the environment, so a setting can be made to follow it.
  Bench bench;
  bench.write("start", "#!/bin/sh\nSAMERUN_SEED=$SAMERUN_RANK exec " + std::string(kStubPath) + " operations\n", true);
  const Ended ended = bench.run({"launch", "-n", "2", "--no-record", "--", bench.file("start")});
  expect_failure(ended, {"the program or its settings differ over ranks", "'seed=0'", "'seed=1'"});
}

}  // namespace
}  // namespace samerun::ranks_test
