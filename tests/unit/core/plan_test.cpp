#include "samerun/core/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "samerun/core/error.h"

namespace samerun {
namespace {

using Ids = std::vector<std::int64_t>;

Ids counted(std::int64_t size) {
  Ids ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return ids;
}

/// Calls `check` for all sizes < 40, batch sizes < 7 and world sizes < 6.
template <class Check>
void for_small_plans(Uneven uneven, Check check) {
  PlanOptions options;
  options.uneven = uneven;
  for (options.size = 0; options.size < 40; ++options.size) {
    for (options.batch_size = 1; options.batch_size < 7; ++options.batch_size) {
      for (options.world_size = 1; options.world_size < 6; ++options.world_size) {
        SCOPED_TRACE(testing::Message() << "size " << options.size << " batch " << options.batch_size << " world " << options.world_size);
        check(options);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// Calls `visit(round, rank, batch)` for every batch of an epoch, in global order.
template <class Visit>
void for_batches(const Plan& plan, std::int64_t epoch, Visit visit) {
  for (std::int64_t round = 0; round < plan.rounds(); ++round) {
    for (int rank = 0; rank < plan.options().world_size; ++rank) {
      if (const auto batch = plan.at(epoch, round, rank)) visit(round, rank, *batch);
    }
  }
}

Ids real_rows(const Plan& plan, std::int64_t epoch) {
  Ids rows;
  for_batches(plan, epoch,
              [&](std::int64_t, int, const BatchRef& batch) { rows.insert(rows.end(), batch.ids.begin(), batch.ids.begin() + batch.real); });
  return rows;
}

/// The rule of Accelerate's even batches as its tests tell it, with lists: an oracle for the plan's arithmetic.
std::vector<Ids> completed_batches(const PlanOptions& options) {
  const auto full = static_cast<std::size_t>(options.batch_size);
  const auto world = static_cast<std::size_t>(options.world_size);
  std::vector<Ids> batches;
  for (std::int64_t id = 0; id < options.size; ++id) {
    if (batches.empty() || batches.back().size() == full) batches.emplace_back();
    batches.back().push_back(id);
  }
  if (batches.empty()) return batches;
  Ids spare;
  for (std::size_t i = 0; i < std::min(world, batches.size()); ++i) spare.insert(spare.end(), batches[i].begin(), batches[i].end());
  while (spare.size() < world * full) {
    const Ids once = spare;
    spare.insert(spare.end(), once.begin(), once.end());
  }
  std::size_t next = 0;
  while (batches.back().size() < full || batches.size() % world != 0) {
    if (batches.back().size() == full) batches.emplace_back();
    while (batches.back().size() < full) batches.back().push_back(spare[next++]);
  }
  return batches;
}

TEST(PlanTest, EveryRealSampleIsSeenOnceUnderFillers) {
  for_small_plans(Uneven::kFiller, [](PlanOptions options) { ASSERT_EQ(real_rows(Plan(options), 0), counted(options.size)); });
}

TEST(PlanTest, FillersAreTheFirstBatchOfTheEpoch) {
  for_small_plans(Uneven::kFiller, [](PlanOptions options) {
    options.shuffle = true;
    const Plan plan(options);
    for_batches(plan, 2, [&](std::int64_t round, int, const BatchRef& batch) {
      ASSERT_EQ(batch.filler, batch.real == 0);
      ASSERT_FALSE(batch.ids.empty());
      if (batch.filler) {
        ASSERT_EQ(round, plan.rounds() - 1);
        ASSERT_EQ(batch.ids, plan.at(2, 0, 0)->ids);
      } else {
        ASSERT_EQ(std::ssize(batch.ids), batch.real);
      }
    });
  });
}

// Why fillers are the default: the batches of N ranks are those of one rank.
TEST(PlanTest, ManyRanksSeeTheBatchesOfOneRankUnderFillers) {
  for_small_plans(Uneven::kFiller, [](PlanOptions options) {
    options.shuffle = true;
    PlanOptions alone = options;
    alone.world_size = 1;
    const Plan many(options), one(alone);
    for_batches(many, 1, [&](std::int64_t, int, const BatchRef& batch) {
      if (batch.filler) return;
      ASSERT_EQ(batch.ids, one.at(1, batch.global_index, 0)->ids);
    });
  });
}

TEST(PlanTest, DuplicateGivesEveryRankAsManyFullBatches) {
  for_small_plans(Uneven::kDuplicate, [](PlanOptions options) {
    const Plan plan(options);
    for_batches(plan, 0, [&](std::int64_t, int, const BatchRef& batch) { ASSERT_EQ(std::ssize(batch.ids), options.batch_size); });
    ASSERT_EQ(real_rows(plan, 0), counted(options.size));
  });
}

TEST(PlanTest, RoundsCutToTheRemainderAreExactlyTheDataset) {
  for_small_plans(Uneven::kDuplicate, [](PlanOptions options) {
    const Plan plan(options);
    Ids rows;
    for_batches(plan, 0, [&](std::int64_t, int, const BatchRef& batch) { rows.insert(rows.end(), batch.ids.begin(), batch.ids.end()); });
    const std::int64_t round_rows = options.batch_size * options.world_size;
    const std::int64_t remainder = options.size % round_rows;
    if (remainder != 0) rows.resize(rows.size() - static_cast<std::size_t>(round_rows - remainder));
    ASSERT_EQ(rows, counted(options.size));
  });
}

TEST(PlanTest, DuplicateIsTheListRuleOfAccelerate) {
  for_small_plans(Uneven::kDuplicate, [](PlanOptions options) {
    std::vector<Ids> batches;
    for_batches(Plan(options), 0, [&](std::int64_t, int, const BatchRef& batch) { batches.push_back(batch.ids); });
    ASSERT_EQ(batches, completed_batches(options));
  });
}

TEST(PlanTest, RaggedHoldsEverySampleOnceWithoutPadding) {
  for_small_plans(Uneven::kRagged, [](PlanOptions options) {
    const Plan plan(options);
    for_batches(plan, 0, [&](std::int64_t, int, const BatchRef& batch) {
      ASSERT_GT(batch.real, 0);
      ASSERT_EQ(std::ssize(batch.ids), batch.real);
    });
    ASSERT_EQ(real_rows(plan, 0), counted(options.size));
  });
}

TEST(PlanTest, DropHoldsWholeRoundsOnly) {
  for_small_plans(Uneven::kDrop, [](PlanOptions options) {
    const std::int64_t round_rows = options.batch_size * options.world_size;
    const Plan plan(options);
    ASSERT_EQ(plan.rounds(), options.size / round_rows);
    ASSERT_EQ(real_rows(plan, 0), counted(options.size - options.size % round_rows));
  });
}

TEST(PlanTest, SplitBatchesAreSmallerBatchesOfTheRanks) {
  for (const Uneven uneven : {Uneven::kFiller, Uneven::kDuplicate, Uneven::kRagged, Uneven::kDrop}) {
    for_small_plans(uneven, [](PlanOptions options) {
      PlanOptions split = options;
      split.split_batches = true;
      split.batch_size *= split.world_size;
      const Plan cut(split), whole(options);
      ASSERT_EQ(cut.rounds(), whole.rounds());
      for_batches(whole, 0, [&](std::int64_t round, int rank, const BatchRef& batch) { ASSERT_EQ(cut.at(0, round, rank)->ids, batch.ids); });
    });
  }
}

TEST(PlanTest, GlobalBatchesAreNumberedRoundByRound) {
  for_small_plans(Uneven::kFiller, [](PlanOptions options) {
    std::int64_t expected = 0;
    for_batches(Plan(options), 0, [&](std::int64_t, int, const BatchRef& batch) { ASSERT_EQ(batch.global_index, expected++); });
  });
}

TEST(PlanTest, WindowsCoverTheEpochAndEndWithIt) {
  for_small_plans(Uneven::kFiller, [](PlanOptions options) {
    for (options.accumulation_steps = 1; options.accumulation_steps < 4; ++options.accumulation_steps) {
      const Plan plan(options);
      std::int64_t first = 0;
      for (std::int64_t index = 0; index < plan.windows(); ++index) {
        const WindowRange range = plan.window(first);
        ASSERT_EQ(range.index, index);
        ASSERT_EQ(range.first_round, first);
        ASSERT_EQ(range.end_round, std::min(first + options.accumulation_steps, plan.rounds()));
        for (std::int64_t round = first; round < range.end_round; ++round) ASSERT_EQ(plan.window(round).first_round, first);
        first = range.end_round;
      }
      ASSERT_EQ(first, plan.rounds());
    }
  });
}

TEST(PlanTest, SamplesOfAWindowAreItsRealRows) {
  for (const Uneven uneven : {Uneven::kFiller, Uneven::kDuplicate, Uneven::kRagged, Uneven::kDrop}) {
    for_small_plans(uneven, [](PlanOptions options) {
      for (options.accumulation_steps = 1; options.accumulation_steps < 4; ++options.accumulation_steps) {
        const Plan plan(options);
        Ids counts(static_cast<std::size_t>(plan.windows()));
        for_batches(plan, 0, [&](std::int64_t round, int, const BatchRef& batch) {
          counts[static_cast<std::size_t>(plan.window(round).index)] += batch.real;
        });
        for (std::int64_t round = 0; round < plan.rounds(); ++round) {
          ASSERT_EQ(plan.samples_in_window(round), counts[static_cast<std::size_t>(plan.window(round).index)]);
        }
      }
    });
  }
}

TEST(PlanTest, WindowLongerThanTheEpochIsTheEpoch) {
  PlanOptions options;
  options.size = 10;
  options.accumulation_steps = std::numeric_limits<std::int64_t>::max();
  const Plan plan(options);
  EXPECT_EQ(plan.windows(), 1);
  EXPECT_EQ(plan.window(9).end_round, 10);
  EXPECT_EQ(plan.samples_in_window(3), 10);
}

TEST(PlanTest, EpochsMayBeAskedForInAnyOrder) {
  PlanOptions options;
  options.size = 50;
  options.batch_size = 50;
  options.shuffle = true;
  options.data_seed = 9;
  const Plan plan(options);
  for (const std::int64_t epoch : {0, 3, 0, 1, 1, 0}) EXPECT_EQ(plan.at(epoch, 0, 0)->ids, epoch_order(50, true, 9, epoch)) << epoch;
}

TEST(PlanTest, PaddingFollowsTheShuffledOrder) {
  PlanOptions options;
  options.size = 5;
  options.batch_size = 4;
  options.world_size = 2;
  options.shuffle = true;
  options.uneven = Uneven::kDuplicate;
  const Ids order = epoch_order(5, true, 0, 6);
  EXPECT_EQ(Plan(options).at(6, 0, 1)->ids, (Ids{order[4], order[0], order[1], order[2]}));
}

TEST(PlanTest, EmptyDatasetHasNoRounds) {
  for (const Uneven uneven : {Uneven::kFiller, Uneven::kDuplicate, Uneven::kRagged, Uneven::kDrop}) {
    PlanOptions options;
    options.uneven = uneven;
    options.shuffle = true;
    EXPECT_EQ(Plan(options).rounds(), 0);
    EXPECT_EQ(Plan(options).windows(), 0);
  }
}

template <class Call>
void expect_invalid(Call call) {
  try {
    call();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
  }
}

TEST(PlanTest, ImpossibleOptionsAreRefused) {
  const auto refused = [](auto change) {
    PlanOptions options;
    options.size = 10;
    change(options);
    expect_invalid([&] { Plan{options}; });
  };
  refused([](PlanOptions& options) { options.size = -1; });
  refused([](PlanOptions& options) { options.batch_size = 0; });
  refused([](PlanOptions& options) { options.world_size = 0; });
  refused([](PlanOptions& options) { options.accumulation_steps = 0; });
  refused([](PlanOptions& options) { options.split_batches = true, options.batch_size = 3, options.world_size = 2; });
  refused([](PlanOptions& options) { options.batch_size = std::numeric_limits<std::int64_t>::max(), options.world_size = 2; });
}

TEST(PlanTest, PlacesOutsideTheEpochAreRefused) {
  PlanOptions options;
  options.size = 10;
  options.world_size = 2;
  const Plan plan(options);
  ASSERT_EQ(plan.rounds(), 5);
  expect_invalid([&] { plan.at(0, 5, 0); });
  expect_invalid([&] { plan.at(0, -1, 0); });
  expect_invalid([&] { plan.at(0, 0, 2); });
  expect_invalid([&] { plan.at(0, 0, -1); });
  expect_invalid([&] { plan.at(-1, 0, 0); });
  expect_invalid([&] { plan.window(5); });
  expect_invalid([&] { plan.samples_in_window(-1); });
}

}  // namespace
}  // namespace samerun
