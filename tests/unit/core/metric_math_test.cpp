#include "samerun/core/metric_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "samerun/core/error.h"

namespace samerun {
namespace {

using Ids = std::vector<std::int64_t>;
using Values = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

void expect(const MetricResult& result, double numerator, double denominator, double value, std::int64_t rows) {
  EXPECT_EQ(result.numerator, numerator);
  EXPECT_EQ(result.denominator, denominator);
  EXPECT_EQ(result.value, value);
  EXPECT_EQ(result.rows, rows);
}

TEST(MetricMathTest, SumAndMeanAreOfAllRows) {
  const Ids ids{4, 0, 9};
  const Values values{1, 2.5, 4};
  expect(metric_of("sum", 1, ids, values), 7.5, 3, 7.5, 3);
  expect(metric_of("mean", 1, ids, values), 7.5, 3, 2.5, 3);
}

TEST(MetricMathTest, WeightedMeanIsOfValuesTimesWeightsAndNotOfMeans) {
  // 2 * 1 + 6 * 3 = 20 over 4; the plain mean would be 4.
  expect(metric_of("weighted-mean", 2, Ids{0, 1}, Values{2, 1, 6, 3}), 20, 4, 5, 2);
}

TEST(MetricMathTest, F1IsTheMeanOverClassesThatOccurAmongPredictionsOrLabels) {
  // (prediction, label): class 0: 2 hits, 1 false hit, 1 miss: 4/6. class 1: 1 hit, 1 false hit, 1 miss: 2/4.
  // class 2: a miss only: 0. class 3: a false hit only: 0. Classes 4 and up do not occur.
  const Values values{0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 3, 0};
  const auto result = metric_of("f1-macro", 2, Ids{0, 1, 2, 3, 4, 5}, values);
  expect(result, 4.0 / 6 + 2.0 / 4, 4, (4.0 / 6 + 2.0 / 4) / 4, 6);
}

TEST(MetricMathTest, F1OfPartsIsNotTheF1OfAll) {
  const Values first{0, 0, 1, 1}, second{0, 1, 1, 1};
  Values all = first;
  all.insert(all.end(), second.begin(), second.end());
  const double of_parts = (metric_of("f1-macro", 2, Ids{0, 1}, first).value + metric_of("f1-macro", 2, Ids{2, 3}, second).value) / 2;
  // All: class 0: 1 hit, 1 false hit: 2/3; class 1: 2 hits, 1 miss: 4/5.
  EXPECT_EQ(metric_of("f1-macro", 2, Ids{0, 1, 2, 3}, all).value, (2.0 / 3 + 4.0 / 5) / 2);
  EXPECT_NE(of_parts, (2.0 / 3 + 4.0 / 5) / 2);
}

TEST(MetricMathTest, RowsAreTakenInOrderOfSampleIdSoTheirOrderChangesNoBit) {
  // From left to right 1e16 + 1 loses the 1; -1e16 first keeps it.
  expect(metric_of("sum", 1, Ids{2, 0, 1}, Values{1, 1e16, -1e16}), 1, 3, 1, 3);
  expect(metric_of("sum", 1, Ids{0, 1, 2}, Values{1e16, -1e16, 1}), 1, 3, 1, 3);
  expect(metric_of("sum", 1, Ids{0, 2, 1}, Values{1e16, -1e16, 1}), 0, 3, 0, 3);
  expect(metric_of("weighted-mean", 2, Ids{2, 0, 1}, Values{1, 1, 1e16, 1, -1e16, 1}), 1, 3, 1.0 / 3, 3);
}

TEST(MetricMathTest, NanPassesThroughEveryRule) {
  const Ids ids{0, 1};
  for (const auto& values : {Values{kNan, 1}, Values{1, kNan}}) {
    EXPECT_TRUE(std::isnan(metric_of("sum", 1, ids, values).value));
    EXPECT_TRUE(std::isnan(metric_of("mean", 1, ids, values).value));
    EXPECT_TRUE(std::isnan(metric_of("weighted-mean", 2, Ids{0}, values).value));
    EXPECT_TRUE(std::isnan(metric_of("f1-macro", 2, Ids{0}, values).value));
  }
}

TEST(MetricMathTest, AMeanOfNothingIsNan) {
  EXPECT_TRUE(std::isnan(metric_of("mean", 1, {}, {}).value));
  EXPECT_TRUE(std::isnan(metric_of("weighted-mean", 2, Ids{0}, Values{3, 0}).value));
  EXPECT_TRUE(std::isnan(metric_of("f1-macro", 2, {}, {}).value));
  EXPECT_EQ(metric_of("sum", 1, {}, {}).value, 0);
}

TEST(MetricMathTest, ASampleThatComesTwiceIsRefusedByItsId) {
  try {
    metric_of("mean", 1, Ids{3, 8, 3}, Values{1, 2, 3});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("sample=3"), std::string::npos) << error.what();
  }
}

TEST(MetricMathTest, RowsThatDoNotFitTheRuleAreRefused) {
  EXPECT_THROW(metric_of("mean", 2, Ids{0}, Values{1, 2}), Error);
  EXPECT_THROW(metric_of("weighted-mean", 1, Ids{0}, Values{1}), Error);
  EXPECT_THROW(metric_of("mean", 1, Ids{0}, Values{1, 2}), Error);
  EXPECT_THROW(metric_of("samples", 1, Ids{0}, Values{1}), Error);
  EXPECT_THROW(metric_of("average", 1, Ids{0}, Values{1}), Error);
}

TEST(MetricMathTest, NamesOfWhatIsNoAverageAreKnownAsWholeWords) {
  for (const char* name : {"f1", "F1", "val_f1", "f1_macro", "test/F1-score"}) EXPECT_EQ(non_additive_word(name), "f1") << name;
  EXPECT_EQ(non_additive_word("roc_auc"), "auc");
  EXPECT_EQ(non_additive_word("Validation Perplexity"), "perplexity");
  EXPECT_EQ(non_additive_word("mean IoU"), "iou");
  for (const char* name : {"accuracy", "loss", "f10", "recalled", "imprecision", "buff1", "", "val_loss"})
    EXPECT_EQ(non_additive_word(name), "") << name;
}

}  // namespace
}  // namespace samerun
