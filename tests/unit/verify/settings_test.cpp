#include <cmath>

#include "fake_pair.h"

namespace samerun::verify {
namespace {

class SettingsTest : public PairTest {
 protected:
  /// Changes a parameter group's row of `step` on each rank of both candidates.
  static void each_group(FakePair& pair, std::int64_t step, const std::function<void(GroupStep&)>& change) {
    for (FakeRun* run : pair.candidates()) {
      for (auto& rank : run->ranks) change(rank.groups.at(static_cast<std::size_t>(step)));
    }
  }
};

TEST_F(SettingsTest, ALearningRateOneBitOffIsFoundAtItsStep) {
  FakePair pair = clean_pair();
  each_group(pair, 2, [](GroupStep& row) { row.learning_rate = std::nextafter(row.learning_rate, 1.0); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "settings", "learning rate", "", 2));
  EXPECT_NE(report.first->text.find("learning rate"), std::string::npos) << report.first->text;
  EXPECT_NE(report.first->text.find("handle that prepare() returned"), std::string::npos) << report.first->text;
}

TEST_F(SettingsTest, EachHyperparameterIsComparedBitForBit) {
  const std::pair<const char*, double GroupStep::*> all[] = {{"weight decay", &GroupStep::weight_decay},
                                                             {"beta1", &GroupStep::beta1},
                                                             {"beta2", &GroupStep::beta2},
                                                             {"epsilon", &GroupStep::epsilon},
                                                             {"momentum", &GroupStep::momentum}};
  for (const auto& [name, value] : all) {
    FakePair pair = clean_pair();
    each_group(pair, 4, [value = value](GroupStep& row) { row.*value += 0x1p-40; });
    const Report report = judge(pair);
    EXPECT_TRUE(found(report, "settings", name, "", 4));
  }
}

TEST_F(SettingsTest, AnotherOptimizerIsFound) {
  FakePair pair = clean_pair();
  each_group(pair, 0, [](GroupStep& row) { row.optimizer = "Adam"; });
  EXPECT_TRUE(found(judge(pair), "settings", "settings", "", 0));
}

TEST_F(SettingsTest, ACountThatThePlanDoesNotSetIsFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(1, [](Step& row, int) { row.samples_counted -= 1; });
  EXPECT_TRUE(found(judge(pair), "settings", "weights", "", 1));
}

TEST_F(SettingsTest, ADenominatorOffByOneIsFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(5, [](Step& row, int) { row.loss_denominator += 1; });
  EXPECT_TRUE(found(judge(pair), "settings", "weights", "", 5));
}

TEST_F(SettingsTest, ALastWindowThatTheCandidateDropsIsFound) {
  FakePair pair = clean_pair();
  for (auto& rank : pair.candidate.ranks) {
    rank.steps.pop_back();
    rank.groups.pop_back();
  }
  EXPECT_TRUE(found(judge(pair), "settings", "steps", "", kSteps - 1));
}

TEST_F(SettingsTest, OtherSeedsAndThreadsAreFound) {
  for (const char* key : {"seed", "threads", "train.data_seed"}) {
    FakePair pair = clean_pair();
    pair.candidate.set(key, "9");
    const Report report = judge(pair);
    EXPECT_TRUE(found(report, "settings", "settings", "", -1)) << key;
    EXPECT_NE(report.first->text.find(key), std::string::npos);
  }
}

TEST_F(SettingsTest, WhatDiffersByDesignIsNoDifference) {
  FakePair pair = clean_pair();
  for (auto& rank : pair.candidate.ranks) rank.settings.push_back({"backend", "gloo", "default"});
  pair.reference.rank(0).settings.push_back({"backend", "none", "default"});
  EXPECT_TRUE(same(judge(pair)));
}

using Gate0Test = PairTest;

TEST_F(Gate0Test, MomentsThatChangeBetweenTwoStepsAreFoundAtTheLaterOne) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) run->each_step(3, [](Step& row, int) { change_bits(row.root_moments_before); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "gate0", "state", "", 3));
  EXPECT_EQ(report.first->check, "gate0");
}

TEST_F(Gate0Test, ParametersThatChangeBetweenTwoStepsComeBeforeAllThatFollows) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(2, [](Step& row, int) { change_bits(row.root_before); });
  for (auto& row : pair.candidate64.rank(0).tensors) {
    if (row.stage == stage::kRaw && row.step == 2) scale_row(row, 1.5);
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "gate0", "state", "", 2));
  EXPECT_EQ(report.first->check, "gate0") << all_evidence(report);
}

TEST_F(Gate0Test, StateThatTheProgramItselfChangesBetweenStepsIsNoDifference) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference, &pair.candidate64, &pair.reference64}) {
    for (std::int64_t step = 1; step < kSteps; ++step) run->each_step(step, [](Step& row, int) { change_bits(row.root_before); });
  }
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(find_check(report, "gate0")->summary.find("the program itself"), std::string::npos);
}

TEST_F(Gate0Test, AnOptimizerOnAnotherCopyNeverChangesTheParameters) {
  FakePair pair = clean_pair();
  const Digest start = pair.candidate.rank(0).steps.front().root_before;
  for (auto& rank : pair.candidate.ranks) {
    for (auto& row : rank.steps) row.root_before = row.root_after = start;
  }
  EXPECT_TRUE(found(judge(pair), "gate0", "update", "", 0));
}

TEST_F(Gate0Test, AStepThatTheOptimizerDidNotTakeIsFoundAtThatStep) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(3, [](Step& row, int) { row.root_moments_after = row.root_moments_before; });
  pair.candidate.each_step(4, [&pair](Step& row, int rank) { row.root_moments_before = pair.candidate.rank(rank).steps[3].root_moments_after; });
  EXPECT_TRUE(found(judge(pair), "gate0", "update", "", 3));
}

TEST_F(Gate0Test, AnOptimizerWithoutStateIsNotTakenForOneThatDoesNotStep) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference, &pair.candidate64, &pair.reference64}) {
    for (auto& rank : run->ranks) {
      for (auto& row : rank.steps) row.root_moments_before = row.root_moments_after = Digest{};
    }
  }
  EXPECT_TRUE(same(judge(pair)));
}

}  // namespace
}  // namespace samerun::verify
