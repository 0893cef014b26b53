#include <cmath>
#include <limits>

#include "fake_pair.h"

namespace samerun::verify {
namespace {

class GradientTest : public PairTest {
 protected:
  static void scale_from(FakePair& pair, std::int64_t first, const std::string& tensor, double factor) {
    for (std::int64_t step = first; step < kSteps; ++step) {
      pair.candidate64.each_tensor(stage::kRaw, step, tensor, [&](TensorTrace& row, int) { scale_row(row, factor); });
    }
  }
};

TEST_F(GradientTest, AScaleOfOnePartInABillionIsFoundInEachTensor) {
  for (const char* tensor : {kBody, kHead, kBias}) {
    FakePair pair = clean_pair();
    scale_from(pair, 0, tensor, 1 + 1e-9);
    EXPECT_TRUE(found(judge(pair), "gradient", "reduced gradient", tensor, 0));
  }
}

TEST_F(GradientTest, AFaultThatBeginsLaterIsNamedWithItsFirstStep) {
  FakePair pair = clean_pair();
  scale_from(pair, 4, kHead, 0.5);
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "gradient", "reduced gradient", kHead, 4));
  EXPECT_NE(first_evidence(report, "gradient").text.find("1/2 times"), std::string::npos) << first_evidence(report, "gradient").text;
}

TEST_F(GradientTest, ALastWindowScaledByTheFullCountIsFoundThere) {
  FakePair pair = clean_pair();
  pair.candidate64.each_tensor(stage::kRaw, 2, "", [](TensorTrace& row, int) { scale_row(row, 0.5); });
  EXPECT_TRUE(found(judge(pair), "gradient", "reduced gradient", kBody, 2));
}

TEST_F(GradientTest, OneElementInAHashedTensorIsFound) {
  FakePair pair = clean_pair();
  pair.candidate64.each_tensor(stage::kRaw, 3, kBody, [](TensorTrace& row, int rank) {
    change_bits(row.digest);
    if (rank == 0) row.sketch[17] += 1e-8;
  });
  EXPECT_TRUE(found(judge(pair), "gradient", "reduced gradient", kBody, 3));
}

TEST_F(GradientTest, RoundingOfTheSizeOfTheReexecutionsIsNoDifference) {
  FakePair pair = clean_pair();
  pair.candidate64.each_tensor(stage::kRaw, 3, "", [](TensorTrace& row, int) { scale_row(row, 1 + 0x1p-51); });
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(GradientTest, NoiseThatOneStepsReexecutionsMissedIsTakenFromItsNeighbours) {
  FakePair pair = clean_pair();
  // one element whose sum cancels: 1,000 units of noise everywhere, but at step 3 all re-executions round alike
  for (auto& rerun : pair.reruns) {
    for (std::int64_t step = 0; step < kSteps; ++step) {
      rerun.each_tensor(stage::kRaw, step, kBias, [&](TensorTrace& row, int) { scale_row(row, step == 3 ? 1 : 1 + 1000 * 0x1p-53); });
    }
  }
  pair.candidate64.each_tensor(stage::kRaw, 3, kBias, [](TensorTrace& row, int) { scale_row(row, 1 - 1000 * 0x1p-53); });
  EXPECT_TRUE(same(judge(pair)));
}

// A gradient that is truly zero is rounding noise in every run, as large as itself: it has no power, and tier S decides.
TEST_F(GradientTest, ATrueZeroGradientIsLeftToTierS) {
  FakePair pair = clean_pair();
  double sign = 1;
  std::vector<FakeRun*> runs{&pair.candidate64, &pair.reference64};
  for (auto& rerun : pair.reruns) runs.push_back(&rerun);
  for (FakeRun* run : runs) {
    sign = -sign;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      run->each_tensor(stage::kRaw, step, kBias, [&](TensorTrace& row, int rank) { rank == 0 ? scale_row(row, sign * 1e-17) : void(); });
      // the norm that clipping saw was made of the larger gradient
      run->each_step(step, [](Step& row, int) { row.clip_max = -1, row.norm_raw = -1, row.root_clipped = row.root_raw; });
    }
  }
  for (FakeRun* run : {&pair.candidate, &pair.reference}) {
    for (std::int64_t step = 0; step < kSteps; ++step)
      run->each_step(step, [](Step& row, int) { row.clip_max = -1, row.norm_raw = -1, row.root_clipped = row.root_raw; });
  }
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(find_check(report, "gradient")->summary.find("1 tensor left to tier S"), std::string::npos) << find_check(report, "gradient")->summary;

  std::erase_if(pair.reference64.rank(0).locked, [](const LockedRow&) { return true; });
  const Report without = judge(pair);
  EXPECT_EQ(without.verdict, Verdict::kInconclusive) << all_evidence(without);
  EXPECT_EQ(first_evidence(without, "coverage").tensor, kBias);
}

TEST_F(GradientTest, AGradientThatOnlyTheReferenceLeavesAtZeroIsFound) {
  FakePair pair = clean_pair();
  std::vector<FakeRun*> runs{&pair.reference64};
  for (auto& rerun : pair.reruns) runs.push_back(&rerun);
  for (FakeRun* run : runs) {
    for (std::int64_t step = 0; step < kSteps; ++step) run->each_tensor(stage::kRaw, step, kHead, [](TensorTrace& row, int) { scale_row(row, 0); });
  }
  EXPECT_TRUE(found(judge(pair), "gradient", "reduced gradient", kHead, 0));
}

TEST_F(GradientTest, NotFiniteInOneRunOnlyIsFound) {
  FakePair pair = clean_pair();
  pair.candidate64.each_tensor(stage::kRaw, 2, kHead, [](TensorTrace& row, int) { scale_row(row, std::numeric_limits<double>::quiet_NaN()); });
  EXPECT_TRUE(found(judge(pair), "gradient", "reduced gradient", kHead, 2));
}

TEST_F(GradientTest, WithoutFloat64RunsTheVerdictIsInconclusiveAndSaysWhatIsMissing) {
  FakePair pair = clean_pair();
  pair.shadows = false;
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_NE(report.summary.find("float64"), std::string::npos) << report.summary;
  EXPECT_EQ(find_check(report, "locked")->word, Verdict::kSame);
}

TEST_F(GradientTest, WithoutReexecutionsADifferenceAboveTheFloorIsInconclusive) {
  FakePair pair = clean_pair();
  pair.reruns.clear();
  scale_from(pair, 1, kHead, 1 + 1e-12);
  const Report report = judge(pair);
  EXPECT_EQ(find_check(report, "gradient")->word, Verdict::kInconclusive) << all_evidence(report);
}

TEST_F(GradientTest, AFloat64RunThatFailedIsInconclusiveWithItsReason) {
  FakePair pair = clean_pair();
  for (auto& rank : pair.candidate64.ranks) rank = FakeRank{};
  pair.candidate64.status = "failed";
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_EQ(first_evidence(report, "gradient").word, Verdict::kInconclusive);
}

TEST_F(GradientTest, SketchesThatWereNotKeptAreInconclusiveWhereBitsDiffer) {
  FakePair pair = clean_pair();
  pair.candidate64.each_tensor(stage::kRaw, 4, kBody, [](TensorTrace& row, int) { row.sketch.clear(); });
  std::erase_if(pair.reference64.rank(0).locked, [](const LockedRow&) { return true; });
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_EQ(first_evidence(report, "coverage").tensor, kBody);
}

}  // namespace
}  // namespace samerun::verify
