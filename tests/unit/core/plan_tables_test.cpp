// Index lists that users of Accelerate know, case by case.
#include <gtest/gtest.h>

#include <numeric>

#include "samerun/core/plan.h"

namespace samerun {
namespace {

using Ids = std::vector<std::int64_t>;
using Lists = std::vector<Ids>;

/// The batches of one rank in the first epoch.
Lists lists(const PlanOptions& options, int rank) {
  const Plan plan(options);
  Lists result;
  for (std::int64_t round = 0; round < plan.rounds(); ++round) {
    if (auto batch = plan.at(0, round, rank)) result.push_back(batch->ids);
  }
  return result;
}

/// [first, last] as a list.
Ids run(std::int64_t first, std::int64_t last) {
  Ids ids(static_cast<std::size_t>(last - first + 1));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

Ids join(Ids first, const Ids& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

PlanOptions options(std::int64_t size, std::int64_t batch_size, int world_size, Uneven uneven, bool split = false) {
  PlanOptions result;
  result.size = size;
  result.batch_size = batch_size;
  result.world_size = world_size;
  result.uneven = uneven;
  result.split_batches = split;
  return result;
}

const Lists kThreeOfRank0 = {{0, 1, 2}, {6, 7, 8}, {12, 13, 14}};
const Lists kThreeOfRank1 = {{3, 4, 5}, {9, 10, 11}, {15, 16, 17}};

Lists with(Lists lists, const Ids& last) {
  lists.push_back(last);
  return lists;
}

TEST(PlanTablesTest, DataThatDivideGiveFullBatchesInEveryMode) {
  for (const Uneven uneven : {Uneven::kFiller, Uneven::kDuplicate, Uneven::kRagged, Uneven::kDrop}) {
    EXPECT_EQ(lists(options(24, 3, 2, uneven), 0), with(kThreeOfRank0, {18, 19, 20}));
    EXPECT_EQ(lists(options(24, 3, 2, uneven), 1), with(kThreeOfRank1, {21, 22, 23}));
  }
}

TEST(PlanTablesTest, DuplicateFillsTheLastRoundFromTheFirstBatches) {
  EXPECT_EQ(lists(options(21, 3, 2, Uneven::kDuplicate), 0), with(kThreeOfRank0, {18, 19, 20}));
  EXPECT_EQ(lists(options(21, 3, 2, Uneven::kDuplicate), 1), with(kThreeOfRank1, {0, 1, 2}));
  EXPECT_EQ(lists(options(22, 3, 2, Uneven::kDuplicate), 1), with(kThreeOfRank1, {21, 0, 1}));
  EXPECT_EQ(lists(options(20, 3, 2, Uneven::kDuplicate), 0), with(kThreeOfRank0, {18, 19, 0}));
  EXPECT_EQ(lists(options(20, 3, 2, Uneven::kDuplicate), 1), with(kThreeOfRank1, {1, 2, 3}));
}

TEST(PlanTablesTest, DuplicateCyclesThroughDataSmallerThanARound) {
  EXPECT_EQ(lists(options(2, 3, 2, Uneven::kDuplicate), 0), (Lists{{0, 1, 0}}));
  EXPECT_EQ(lists(options(2, 3, 2, Uneven::kDuplicate), 1), (Lists{{1, 0, 1}}));
  EXPECT_EQ(lists(options(9, 5, 2, Uneven::kDuplicate), 0), (Lists{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(lists(options(9, 5, 2, Uneven::kDuplicate), 1), (Lists{{5, 6, 7, 8, 0}}));
  EXPECT_EQ(lists(options(5, 4, 2, Uneven::kDuplicate), 0), (Lists{{0, 1, 2, 3}}));
  EXPECT_EQ(lists(options(5, 4, 2, Uneven::kDuplicate), 1), (Lists{{4, 0, 1, 2}}));
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(lists(options(1, 2, 4, Uneven::kDuplicate), rank), (Lists{{0, 0}}));
}

TEST(PlanTablesTest, DuplicateCarriesTheCycleOnFromRankToRank) {
  const PlanOptions ten = options(10, 2, 4, Uneven::kDuplicate);
  EXPECT_EQ(lists(ten, 0), (Lists{{0, 1}, {8, 9}}));
  EXPECT_EQ(lists(ten, 1), (Lists{{2, 3}, {0, 1}}));
  EXPECT_EQ(lists(ten, 2), (Lists{{4, 5}, {2, 3}}));
  EXPECT_EQ(lists(ten, 3), (Lists{{6, 7}, {4, 5}}));
  EXPECT_EQ(lists(options(24, 1, 5, Uneven::kDuplicate), 4).back(), Ids{0});
  EXPECT_EQ(lists(options(99, 16, 2, Uneven::kDuplicate), 0).back(), join(run(96, 98), run(0, 12)));
  EXPECT_EQ(lists(options(99, 16, 2, Uneven::kDuplicate), 1).back(), run(13, 28));
}

TEST(PlanTablesTest, DropStopsBeforeTheFirstIncompleteRound) {
  for (const std::int64_t size : {20, 21, 22}) {
    EXPECT_EQ(lists(options(size, 3, 2, Uneven::kDrop), 0), kThreeOfRank0);
    EXPECT_EQ(lists(options(size, 3, 2, Uneven::kDrop), 1), kThreeOfRank1);
  }
  EXPECT_EQ(lists(options(2, 3, 2, Uneven::kDrop), 0), Lists{});
  EXPECT_EQ(lists(options(2, 3, 2, Uneven::kDrop), 1), Lists{});
}

TEST(PlanTablesTest, RaggedLeavesRanksShort) {
  EXPECT_EQ(lists(options(21, 3, 2, Uneven::kRagged), 0), with(kThreeOfRank0, {18, 19, 20}));
  EXPECT_EQ(lists(options(21, 3, 2, Uneven::kRagged), 1), kThreeOfRank1);
  EXPECT_EQ(lists(options(22, 3, 2, Uneven::kRagged), 1), with(kThreeOfRank1, {21}));
  EXPECT_EQ(lists(options(20, 3, 2, Uneven::kRagged), 0), with(kThreeOfRank0, {18, 19}));
  EXPECT_EQ(lists(options(20, 3, 2, Uneven::kRagged), 1), kThreeOfRank1);
  EXPECT_EQ(lists(options(2, 3, 2, Uneven::kRagged), 0), (Lists{{0, 1}}));
  EXPECT_EQ(lists(options(2, 3, 2, Uneven::kRagged), 1), Lists{});
}

const Lists kFiveOfHalf0 = {{0, 1}, {4, 5}, {8, 9}, {12, 13}, {16, 17}};
const Lists kFiveOfHalf1 = {{2, 3}, {6, 7}, {10, 11}, {14, 15}, {18, 19}};

TEST(PlanTablesTest, SplitCutsEachBatchOverTheRanks) {
  EXPECT_EQ(lists(options(24, 4, 2, Uneven::kDuplicate, true), 0), with(kFiveOfHalf0, {20, 21}));
  EXPECT_EQ(lists(options(24, 4, 2, Uneven::kDuplicate, true), 1), with(kFiveOfHalf1, {22, 23}));
  EXPECT_EQ(lists(options(22, 4, 2, Uneven::kDuplicate, true), 0), with(kFiveOfHalf0, {20, 21}));
  EXPECT_EQ(lists(options(22, 4, 2, Uneven::kDuplicate, true), 1), with(kFiveOfHalf1, {0, 1}));
  EXPECT_EQ(lists(options(21, 4, 2, Uneven::kDuplicate, true), 0), with(kFiveOfHalf0, {20, 0}));
  EXPECT_EQ(lists(options(21, 4, 2, Uneven::kDuplicate, true), 1), with(kFiveOfHalf1, {1, 2}));
  EXPECT_EQ(lists(options(2, 4, 2, Uneven::kDuplicate, true), 0), (Lists{{0, 1}}));
  EXPECT_EQ(lists(options(2, 4, 2, Uneven::kDuplicate, true), 1), (Lists{{0, 1}}));
}

TEST(PlanTablesTest, SplitCarriesTheCycleOnFromRankToRank) {
  const PlanOptions ten = options(10, 8, 4, Uneven::kDuplicate, true);
  EXPECT_EQ(lists(ten, 0), (Lists{{0, 1}, {8, 9}}));
  EXPECT_EQ(lists(ten, 1), (Lists{{2, 3}, {0, 1}}));
  EXPECT_EQ(lists(ten, 2), (Lists{{4, 5}, {2, 3}}));
  EXPECT_EQ(lists(ten, 3), (Lists{{6, 7}, {4, 5}}));
}

TEST(PlanTablesTest, SplitDropsAndLeavesShortAsTheOthersDo) {
  for (const std::int64_t size : {21, 22}) {
    EXPECT_EQ(lists(options(size, 4, 2, Uneven::kDrop, true), 0), kFiveOfHalf0);
    EXPECT_EQ(lists(options(size, 4, 2, Uneven::kDrop, true), 1), kFiveOfHalf1);
  }
  EXPECT_EQ(lists(options(22, 4, 2, Uneven::kRagged, true), 0), with(kFiveOfHalf0, {20, 21}));
  EXPECT_EQ(lists(options(22, 4, 2, Uneven::kRagged, true), 1), kFiveOfHalf1);
  EXPECT_EQ(lists(options(21, 4, 2, Uneven::kRagged, true), 0), with(kFiveOfHalf0, {20}));
  EXPECT_EQ(lists(options(21, 4, 2, Uneven::kRagged, true), 1), kFiveOfHalf1);
  EXPECT_EQ(lists(options(2, 4, 2, Uneven::kRagged, true), 0), (Lists{{0, 1}}));
  EXPECT_EQ(lists(options(2, 4, 2, Uneven::kRagged, true), 1), Lists{});
}

TEST(PlanTablesTest, FillerKeepsTheRowsOfOneRankAndMarksTheRest) {
  const Plan plan(options(10, 4, 4, Uneven::kFiller));
  ASSERT_EQ(plan.rounds(), 1);
  EXPECT_EQ(plan.at(0, 0, 2)->ids, (Ids{8, 9}));
  EXPECT_EQ(plan.at(0, 0, 2)->real, 2);
  EXPECT_FALSE(plan.at(0, 0, 2)->filler);
  EXPECT_EQ(plan.at(0, 0, 3)->ids, run(0, 3));
  EXPECT_EQ(plan.at(0, 0, 3)->real, 0);
  EXPECT_TRUE(plan.at(0, 0, 3)->filler);
  EXPECT_EQ(plan.at(0, 0, 3)->global_index, 3);
}

TEST(PlanTablesTest, FillerOfAShortFirstBatchIsAsShort) {
  EXPECT_EQ(lists(options(3, 4, 2, Uneven::kFiller), 0), (Lists{{0, 1, 2}}));
  EXPECT_EQ(lists(options(3, 4, 2, Uneven::kFiller), 1), (Lists{{0, 1, 2}}));
}

TEST(PlanTablesTest, PaddingRowsAreMarked) {
  const Plan plan(options(20, 3, 2, Uneven::kDuplicate));
  EXPECT_EQ(plan.at(0, 3, 0)->real, 2);
  EXPECT_EQ(plan.at(0, 3, 1)->real, 0);
  EXPECT_FALSE(plan.at(0, 3, 1)->filler);
  EXPECT_EQ(plan.at(0, 2, 1)->real, 3);
}

// 1,437 training images in batches of 32 on 4 ranks: what even batches cost.
TEST(PlanTablesTest, DigitsRepeatNinetyNineSamplesUnderDuplicateAndNoneUnderFiller) {
  for (const Uneven uneven : {Uneven::kDuplicate, Uneven::kFiller}) {
    const Plan plan(options(1437, 32, 4, uneven));
    std::int64_t repeated = 0;
    for (std::int64_t round = 0; round < plan.rounds(); ++round) {
      for (int rank = 0; rank < 4; ++rank) {
        const BatchRef batch = *plan.at(0, round, rank);
        if (!batch.filler) repeated += std::ssize(batch.ids) - batch.real;
      }
    }
    EXPECT_EQ(repeated, uneven == Uneven::kDuplicate ? 99 : 0);
  }
}

}  // namespace
}  // namespace samerun
