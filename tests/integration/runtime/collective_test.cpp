// What the collectives give on several ranks, and how many there are.
#include <gtest/gtest.h>

#include <algorithm>

#include "ranks.h"

namespace samerun::ranks_test {
namespace {

class Operations : public testing::TestWithParam<int> {};

TEST_P(Operations, GiveEveryRankTheValuesOfAllRanks) {
  const int n = GetParam();
  const Ended ended = run(n, {"operations"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  const auto column = [n](int rank) { return counting(1 + n * rank, n); };
  for (int rank = 0; rank < n; ++rank) {
    SCOPED_TRACE(rank);
    EXPECT_EQ(vector_of(ended, rank, "gather"), counting(1, n * n));
    std::vector<double> strided, uneven, sum, mean;
    for (int r = 0; r < n; ++r) {
      for (const double value : column(r)) strided.insert(strided.end(), {value, value + 100});
      uneven.insert(uneven.end(), static_cast<std::size_t>(r), r);
    }
    for (int i = 0; i < n; ++i) {
      sum.push_back((i + 1) * n + n * n * (n - 1) / 2);
      mean.push_back(sum.back() / n);
    }
    EXPECT_EQ(vector_of(ended, rank, "gather strided"), strided);
    EXPECT_EQ(vector_of(ended, rank, "gather scalar"), counting(0, n));
    EXPECT_EQ(vector_of(ended, rank, "gather uneven"), uneven);
    EXPECT_EQ(vector_of(ended, rank, "gather bool").at(0), 1);
    EXPECT_EQ(vector_of(ended, rank, "gather bool").size(), static_cast<std::size_t>(n));
    EXPECT_TRUE(vector_of(ended, rank, "gather nothing").empty());
    EXPECT_EQ(vector_of(ended, rank, "sum"), sum);
    EXPECT_EQ(vector_of(ended, rank, "mean"), mean);
    EXPECT_EQ(vector_of(ended, rank, "min"), column(0));
    EXPECT_EQ(vector_of(ended, rank, "max"), column(n - 1));
    EXPECT_EQ(vector_of(ended, rank, "own"), column(rank)) << "reduce() leaves what it was given";
    EXPECT_EQ(vector_of(ended, rank, "broadcast"), column(0));
    EXPECT_EQ(vector_of(ended, rank, "broadcast strided from the last"), column(n - 1));
  }
}

INSTANTIATE_TEST_SUITE_P(CollectiveTest, Operations, testing::Values(1, 2, 3, 4));

class Metrics : public testing::TestWithParam<int> {};

/// Loaders of each size in turn, two passes each: every rank must see rows 0 .. size - 1 once a pass.
void expect_all_rows(int ranks, const std::vector<std::pair<int, int>>& sizes_and_batches, const std::string& uneven) {
  Words words{"metrics"};
  for (const auto& [size, batch] : sizes_and_batches) words.insert(words.end(), {std::to_string(size), std::to_string(batch), uneven});
  const Ended ended = run(ranks, words);
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (int rank = 0; rank < ranks; ++rank) {
    const Words passes = values(ended, rank, "rows");
    ASSERT_EQ(passes.size(), 2 * sizes_and_batches.size());
    for (std::size_t i = 0; i < passes.size(); ++i) EXPECT_EQ(numbers(passes[i]), counting(0, sizes_and_batches[i / 2].first));
  }
}

TEST_P(Metrics, AreGatheredFromExactlyTheSamplesOnEveryRankInEveryPass) {
  expect_all_rows(GetParam(), {{99, 16}, {2, 1}, {1, 4}, {12, 2}, {13, 3}, {0, 2}}, "0");
}

TEST_P(Metrics, AreGatheredWithoutThePaddingOfDuplicatedSamples) {
  expect_all_rows(GetParam(), {{22, 3}, {2, 3}, {99, 16}}, "1");
}

TEST_P(Metrics, AreGatheredFromARaggedLoaderWithoutAnyoneWaiting) {
  expect_all_rows(GetParam(), {{21, 3}, {2, 3}, {99, 16}}, "2");
}

/// What one rank's pass over `words` gives, and that every rank has it in both passes.
void expect_values_of_one_rank(int ranks, const Words& words) {
  const Ended one = run(1, words), many = run(ranks, words);
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(many.code, 0) << many.err;
  for (const char* name : {"mean", "weighted", "f1", "spread"}) {
    const Words expected = values(one, 0, name);
    EXPECT_EQ(expected.size(), 2U);
    for (int rank = 0; rank < ranks; ++rank) EXPECT_EQ(values(many, rank, name), expected) << name << " on rank " << rank;
  }
}

TEST_P(Metrics, HaveTheSameBitsAsOnOneRank) {
  expect_values_of_one_rank(GetParam(), {"metric_values", "99", "16", "0"});
  expect_values_of_one_rank(GetParam(), {"metric_values", "22", "3", "1"});
  expect_values_of_one_rank(GetParam(), {"metric_values", "21", "3", "2"});
}

TEST_P(Metrics, HaveTheSameBitsWhereARankHasNoSampleOrLeavesItsFillersOut) {
  expect_values_of_one_rank(GetParam(), {"metric_values", "1", "4", "0"});
  expect_values_of_one_rank(GetParam(), {"metric_values", "1", "4", "0", "-1", "skip"});
}

TEST_P(Metrics, AreNanOnEveryRankWhereOneSampleIs) {
  const Ended ended = run(GetParam(), {"metric_values", "5", "1", "0", "4"});
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_EQ(values(ended, rank, "mean"), (Words{"nan", "nan"}));
    EXPECT_EQ(values(ended, rank, "spread"), (Words{"4", "4"}));
  }
}

INSTANTIATE_TEST_SUITE_P(CollectiveTest, Metrics, testing::Values(1, 2, 3, 4));

TEST(CollectiveTest, EachRankHasItsBatchesAndFillersAreMarked) {
  for (const char* workers : {"0", "2"}) {
    const Ended ended = run(2, {"identifiers", "21", "3", workers});
    EXPECT_EQ(values(ended, 0, "batch"), (Words{"0 1 2", "6 7 8", "12 13 14", "18 19 20"}));
    EXPECT_EQ(values(ended, 1, "batch"), (Words{"3 4 5", "9 10 11", "15 16 17"}));
    EXPECT_EQ(values(ended, 0, "filler").size(), 0U);
    EXPECT_EQ(values(ended, 1, "filler").size(), 1U);
  }
}

TEST(CollectiveTest, ThereAreNoneInsideAWindow) {
  for (const int n : {2, 3}) {
    const Ended ended = run(n, {"count_in_window"}, {{"SAMERUN_ACCUMULATION_STEPS", "3"}});
    ASSERT_EQ(ended.code, 0) << ended.err;
    for (int rank = 0; rank < n; ++rank) {
      const Words inside = values(ended, rank, "inside"), sync = values(ended, rank, "sync");
      EXPECT_EQ(inside, Words(inside.size(), "none"));
      EXPECT_EQ(sync, Words(sync.size(), "some"));
      EXPECT_FALSE(inside.empty());
      EXPECT_FALSE(sync.empty());
    }
  }
}

TEST(CollectiveTest, MetricsThatDifferOverRanksAreAnErrorThatNamesThem) {
  const auto said = [](const char* what) {
    const Ended ended = run(2, {"metric_differs", what});
    EXPECT_EQ(ended.code, 3);
    return ended.err;
  };
  const std::string rule = said("rule"), name = said("name"), nothing = said("nothing");
  EXPECT_NE(rule.find("metric 'm' differs over ranks: rank 0 has 'mean of 1 columns"), std::string::npos) << rule;
  EXPECT_NE(name.find("'metric=n'"), std::string::npos) << name;
  EXPECT_NE(nothing.find("was given nothing"), std::string::npos) << nothing;
}

TEST(CollectiveTest, TensorsThatDifferOverRanksAreAnErrorOnEveryRankWithBothShapes) {
  for (const char* operation : {"gather", "reduce", "broadcast"}) {
    const Ended ended = run(2, {"shapes_differ", operation});
    EXPECT_EQ(ended.code, 3);
    EXPECT_NE(ended.err.find(std::string("the tensors given to ") + operation + "() differ over ranks"), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("3,]"), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("4,]"), std::string::npos) << ended.err;
  }
}

}  // namespace
}  // namespace samerun::ranks_test
