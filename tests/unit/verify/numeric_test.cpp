#include "numeric.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "findings.h"

namespace samerun::verify {
namespace {

TEST(SumLimitTest, Float64TakesTheWorstCaseAndFloat32TheSmallerOfItAndItsSquareRoot) {
  EXPECT_DOUBLE_EQ(sum_limit(1, 1, "float64", 0), 2 * 5 * 0x1p-53);
  EXPECT_DOUBLE_EQ(sum_limit(252, 1, "float64", 0), 2 * 256 * 0x1p-53);
  EXPECT_DOUBLE_EQ(sum_limit(4, 3, "float32", 1), 2 * 8 * 0x1p-24 * 3);
  EXPECT_DOUBLE_EQ(sum_limit(252, 1, "float32", 1), 2 * 64 * 0x1p-24);
}

// A learning rate of 0.004 was told as 0.0040000000000000001.
TEST(ExactNumberTest, HasNoMoreDigitsThanTellTheNumberFromItsNeighbours) {
  EXPECT_EQ(exact_number(0.004), "0.004");
  EXPECT_EQ(exact_number(-2), "-2");
  EXPECT_NE(exact_number(0.004), exact_number(std::nextafter(0.004, 1.0)));
  EXPECT_EQ(exact_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(exact_number(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(SumLimitTest, NoMagnitudeAllowsNoDistance) {
  EXPECT_EQ(sum_limit(100, 0, "float32", 1'000'000), 0);
}

TEST(SumLimitTest, GradientsThatUnderflowMayDifferBySubnormals) {
  const double tiny = 0x1p-140;
  EXPECT_GE(sum_limit(4, tiny, "float32", 100), 8 * 0x1p-149 * 10);
}

TEST(NormToleranceTest, GrowsOnlyForTensorsLargerThanTheConstantWasMeasuredOn) {
  EXPECT_DOUBLE_EQ(norm_tolerance(1, 1000), 64);
  EXPECT_DOUBLE_EQ(norm_tolerance(1, 32768), 64);
  EXPECT_DOUBLE_EQ(norm_tolerance(1, 8'000'000), 1000);
}

TEST(SameValueTest, IsBitwiseButForNaN) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(same_value(nan, -nan));
  EXPECT_FALSE(same_value(nan, 0));
  EXPECT_FALSE(same_value(0.0, -0.0));
  EXPECT_FALSE(same_value(1, std::nextafter(1.0, 2.0)));
}

TEST(SimpleFractionTest, NamesTheNumbersOfThePlan) {
  EXPECT_EQ(simple_fraction(4, 4, 2), "4");
  EXPECT_EQ(simple_fraction(0.25, 4, 2), "1/4");
  EXPECT_EQ(simple_fraction(4.0 / 3, 4, 4), "4/3");
  EXPECT_EQ(simple_fraction(8, 4, 2), "8");
  EXPECT_EQ(simple_fraction(1, 4, 2), "");
  EXPECT_EQ(simple_fraction(1 + 1e-5, 4, 2), "");
}

TEST(WholeNumberTest, AnythingElseGivesTheOther) {
  EXPECT_EQ(whole_number("12", -1), 12);
  for (const char* text : {"", "12x", " 12", "99999999999999999999"}) EXPECT_EQ(whole_number(text, -1), -1) << text;
}

Evidence at_step(const char* check, const char* stage, std::int64_t step) {
  return {check, Verdict::kDifferent, stage, "", step, -1, 1, 0, ""};
}

TEST(EarlierTest, FollowsAStepFromItsSamplesToItsState) {
  const Evidence order[] = {at_step("initial", "initial state", 0),
                            at_step("sharding", "sample ids", 0),
                            at_step("sharding", "inputs", 0),
                            at_step("settings", "weights", 0),
                            at_step("locked", "loss", 0),
                            at_step("locked", "local gradient", 0),
                            at_step("locked", "reduced gradient", 0),
                            at_step("locked", "norm", 0),
                            at_step("locked", "clipped gradient", 0),
                            at_step("settings", "learning rate", 0),
                            at_step("locked", "update", 0),
                            at_step("replicas", "state", 0),
                            at_step("gate0", "state", 1),
                            at_step("sharding", "sample ids", 1),
                            at_step("sharding", "sample ids", -1)};
  for (std::size_t i = 0; i + 1 < std::size(order); ++i) {
    EXPECT_TRUE(earlier(order[i], order[i + 1])) << order[i].stage << " " << order[i].step << ", " << order[i + 1].stage << " " << order[i + 1].step;
    EXPECT_FALSE(earlier(order[i + 1], order[i]));
  }
}

TEST(FindingsTest, KeepTheEarliestStepOfALineAndCountTheOthers) {
  Findings findings("check");
  for (const std::int64_t step : {7, 3, 5}) findings.different("update", "w", step, 0, "at " + std::to_string(step));
  const auto result = findings.finish("done");
  ASSERT_EQ(result.evidence.size(), 1U);
  EXPECT_EQ(result.evidence[0].step, 3);
  EXPECT_EQ(result.evidence[0].text, "at 3 (and 2 more like it)");
}

TEST(FindingsTest, TheLastOfTwoHundredLinesCountsTheRest) {
  Findings findings("check");
  for (int i = 0; i < 1000; ++i) findings.different("update", "tensor" + std::to_string(i), i, 0, "off");
  const auto result = findings.finish("done");
  ASSERT_EQ(result.evidence.size(), 200U);
  EXPECT_EQ(result.evidence.back().text, "and 801 more findings of this check");
}

}  // namespace
}  // namespace samerun::verify
