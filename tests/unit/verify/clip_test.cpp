#include <cmath>

#include "fake_pair.h"

namespace samerun::verify {
namespace {

using ClipTest = PairTest;

TEST_F(ClipTest, ANormOfAShardIsNotThatOfTheGradients) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(3, [](Step& row, int) { row.norm_raw *= 0.58; });
  EXPECT_TRUE(found(judge(pair), "clip", "norm", "", 3));
}

TEST_F(ClipTest, ANormWithinRoundingIsNoDifference) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(3, [](Step& row, int) { row.norm_raw *= 1 + 50 * 0x1p-24; });
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(ClipTest, GradientsLeftAsTheyWereThoughTheNormIsAboveTheLimitAreFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(2, [](Step& row, int) { row.root_clipped = row.root_raw; });
  EXPECT_TRUE(found(judge(pair), "clip", "clipped gradient", "", 2));
}

TEST_F(ClipTest, AFactorWithoutTheSmallNumberIsFoundInFloat64) {
  FakePair pair = clean_pair();
  pair.candidate64.each_step(0, [](Step& row, int) { row.clip_factor = row.clip_max / row.norm_raw; });
  EXPECT_TRUE(found(judge(pair), "clip", "clipped gradient", "", 0));
}

TEST_F(ClipTest, ATensorClippedByAnotherFactorIsNamed) {
  FakePair pair = clean_pair();
  pair.candidate.each_tensor(stage::kClipped, 4, kHead, [](TensorTrace& row, int) { scale_row(row, 1.001); });
  EXPECT_TRUE(found(judge(pair), "clip", "clipped gradient", kHead, 4));
}

TEST_F(ClipTest, AFlippedSignOfEqualNormIsNamed) {
  FakePair pair = clean_pair();
  pair.candidate.each_tensor(stage::kClipped, 4, kBody, [](TensorTrace& row, int rank) {
    change_bits(row.digest);
    if (rank == 0) row.sketch[3] = -row.sketch[3];
  });
  EXPECT_TRUE(found(judge(pair), "clip", "clipped gradient", kBody, 4));
}

TEST_F(ClipTest, GradientsThatChangeWithoutAClipAreFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(1, [](Step& row, int) {
    row.clip_max = -1;
    change_bits(row.root_clipped);
  });
  EXPECT_TRUE(found(judge(pair), "clip", "clipped gradient", "", 1));
}

TEST_F(ClipTest, AProgramThatClipsAPartOfItsParametersInBothRunsIsNoDifference) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference, &pair.candidate64, &pair.reference64}) {
    for (std::int64_t step = 1; step < kSteps; step += 2) run->each_step(step, [](Step& row, int) { row.norm_raw *= 0.9; });
  }
  EXPECT_TRUE(same(judge(pair)));
}

}  // namespace
}  // namespace samerun::verify
