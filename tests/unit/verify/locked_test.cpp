#include <cmath>
#include <limits>

#include "fake_pair.h"

namespace samerun::verify {
namespace {

class LockedTest : public PairTest {
 protected:
  static LockedRow& row_of(FakeRun& reference, const std::string& stage_name, const std::string& tensor) {
    for (auto& row : reference.rank(0).locked) {
      if (row.stage == stage_name && row.name == tensor) return row;
    }
    throw std::runtime_error("no such row");
  }
  /// The limit on ||D - R|| of a sum of `terms` with magnitude `scale`, from the rule's own text.
  static double float32_limit(double terms, double scale) { return 2 * std::min(terms + 4, 4 * std::sqrt(terms + 4)) * 0x1p-24 * scale; }
};

TEST_F(LockedTest, OneLocalGradientOffByABitIsNamedWithRankAndMicroBatch) {
  FakePair pair = clean_pair();
  pair.candidate.each_tensor(stage::kLocal, 0, kHead,
                             [](TensorTrace& row, int rank) { rank == 1 && row.micro_batch == 1 ? change_bits(row.digest) : void(); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "locked", "local gradient", kHead, 0));
  EXPECT_EQ(first_evidence(report, "locked").rank, 1);
  EXPECT_NE(first_evidence(report, "locked").text.find("micro-batch 1"), std::string::npos);
}

TEST_F(LockedTest, AMicroBatchThatOneRankSkippedIsFound) {
  FakePair pair = clean_pair();
  std::erase_if(pair.candidate.rank(2).tensors, [](const TensorTrace& row) { return row.stage == stage::kLocal && row.micro_batch == 1; });
  EXPECT_TRUE(found(judge(pair), "locked", "local gradient", kBody, 0));
}

TEST_F(LockedTest, AReducedGradientPastTheBoundIsFoundAndOneBelowIsNot) {
  const double limit = float32_limit(6, 1.5);
  for (const double share : {0.99, 1.01}) {
    FakePair pair = clean_pair();
    row_of(pair.reference, "reduced", kHead).distance = limit * share;
    const Report report = judge(pair);
    if (share < 1) {
      EXPECT_TRUE(same(report));
      EXPECT_NE(find_check(report, "locked")->summary.find("closest 0.99"), std::string::npos) << find_check(report, "locked")->summary;
    } else {
      EXPECT_TRUE(found(report, "locked", "reduced gradient", kHead, 0));
    }
  }
}

TEST_F(LockedTest, TheBoundInFloat64IsTheWorstCase) {
  const double limit = 2 * (6 + 4) * 0x1p-53 * 1.5;
  for (const double share : {0.99, 1.01}) {
    FakePair pair = clean_pair();
    row_of(pair.reference64, "reduced", kHead).distance = limit * share;
    EXPECT_EQ(judge(pair).verdict, share < 1 ? Verdict::kSame : Verdict::kDifferent);
  }
}

TEST_F(LockedTest, ASumForAMeanIsDescribedByItsFraction) {
  FakePair pair = clean_pair();
  for (const char* tensor : {kBody, kBias, kHead}) {
    LockedRow& row = row_of(pair.reference, "reduced", tensor);
    row.distance = 2;
    row.common_scale = 2;
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "locked", "reduced gradient", kBody, 0));
  EXPECT_NE(report.first->text.find("3 times the reference's"), std::string::npos) << report.first->text;
}

TEST_F(LockedTest, WithoutMagnitudeNoDistanceIsAllowed) {
  FakePair pair = clean_pair();
  LockedRow& row = row_of(pair.reference, "reduced", kBias);
  row.scale = 0;
  row.distance = 1e-30;
  EXPECT_TRUE(found(judge(pair), "locked", "reduced gradient", kBias, 0));
}

TEST_F(LockedTest, TheFirstStageThatFailsIsNamedThoughLaterOnesFailToo) {
  const std::pair<const char*, const char*> stages[] = {{"update", "update"}, {"clip", "clipped gradient"}, {"norm", "norm"}, {"loss", "loss"}};
  FakePair pair = clean_pair();
  row_of(pair.reference, "moment2", kHead).distance = 1;
  for (const auto& [row, name] : stages) {
    row_of(pair.reference, row, std::string(row) == "norm" || std::string(row) == "loss" ? "" : kHead).distance = 100;
    const Report report = judge(pair);
    ASSERT_TRUE(report.first);
    EXPECT_EQ(report.first->stage, name) << all_evidence(report);
  }
}

TEST_F(LockedTest, AMomentOffByMoreThanRoundingIsAStateDifference) {
  FakePair pair = clean_pair();
  row_of(pair.reference, "moment1", kHead).distance = 1e-4;
  EXPECT_TRUE(found(judge(pair), "locked", "state", kHead, 0));
}

TEST_F(LockedTest, NotFiniteIsADifferenceUnlessKindsAndPlacesAgree) {
  for (const bool alike : {true, false}) {
    FakePair pair = clean_pair();
    LockedRow& row = row_of(pair.reference, "reduced", kHead);
    row.distance = std::numeric_limits<double>::quiet_NaN();
    row.text = alike ? "non-finite, same kinds and places" : "non-finite, kinds or places differ";
    EXPECT_EQ(judge(pair).verdict, alike ? Verdict::kSame : Verdict::kDifferent);
  }
}

TEST_F(LockedTest, WithoutALockedStepTheVerdictIsInconclusive) {
  FakePair pair = clean_pair();
  pair.reference.rank(0).locked.clear();
  pair.reference.rank(0).events.push_back({"warning", "locked-step", "the candidate left no capture of step 0", 0});
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_NE(all_evidence(report).find("left no capture"), std::string::npos);
  EXPECT_LT(report.coverage_tensors, 1);
}

TEST_F(LockedTest, ATensorWithoutItsDistanceIsNotDecided) {
  FakePair pair = clean_pair();
  std::erase_if(pair.reference.rank(0).locked, [](const LockedRow& row) { return row.stage == "reduced" && row.name == kHead; });
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_EQ(first_evidence(report, "coverage").tensor, kHead);
  EXPECT_EQ(report.coverage.decided, 2);
}

TEST_F(LockedTest, AnOptimizerThatCannotBeReplayedRestsOnTheFloat64Runs) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.reference, &pair.reference64}) {
    std::erase_if(run->rank(0).locked, [](const LockedRow& row) { return row.stage == "update" || row.stage.rfind("moment", 0) == 0; });
  }
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(find_check(report, "locked")->summary.find("updates of 3 tensors"), std::string::npos);
}

}  // namespace
}  // namespace samerun::verify
