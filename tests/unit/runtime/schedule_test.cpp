#include "schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace samerun::detail {
namespace {

constexpr Uneven kAllUneven[] = {Uneven::kFiller, Uneven::kDuplicate, Uneven::kRagged, Uneven::kDrop};

/// Sizes that divide and sizes that do not, down to no samples and fewer samples than ranks.
std::vector<PlanOptions> many_plans() {
  std::vector<PlanOptions> plans;
  for (const std::int64_t size : {0, 1, 2, 5, 12, 21, 22, 37})
    for (const std::int64_t batch : {1, 3, 4})
      for (const int world : {1, 2, 3, 4})
        for (const std::int64_t accumulation : {1, 2, 3})
          for (const Uneven uneven : kAllUneven)
            plans.push_back({.size = size,
                             .batch_size = batch,
                             .world_size = world,
                             .accumulation_steps = accumulation,
                             .shuffle = size % 2 == 1,
                             .data_seed = 7,
                             .uneven = uneven});
  return plans;
}

std::string words(const PlanOptions& options) {
  return "N=" + std::to_string(options.size) + " b=" + std::to_string(options.batch_size) + " W=" + std::to_string(options.world_size) +
         " K=" + std::to_string(options.accumulation_steps) + " uneven=" + std::to_string(static_cast<int>(options.uneven));
}

Mode replay_of(int world, int variation = 0) {
  Mode mode;
  mode.replay_world = world;
  mode.variation = variation;
  return mode;
}

using What = std::tuple<std::int64_t, std::vector<std::int64_t>, std::int64_t, bool, std::int64_t, std::int64_t, std::int64_t>;
/// Everything of a slot that the ranks and their replay must share.
What what(const Slot& slot) {
  return {slot.batch.global_index, slot.batch.ids, slot.batch.real, slot.batch.filler, slot.window, slot.micro_index, slot.samples_set};
}

std::vector<std::int64_t> real_rows(const std::vector<Slot>& slots, std::int64_t window) {
  std::vector<std::int64_t> rows;
  for (const Slot& slot : slots)
    if (slot.window == window) rows.insert(rows.end(), slot.batch.ids.begin(), slot.batch.ids.begin() + slot.batch.real);
  return rows;
}

std::vector<std::int64_t> sorted(std::vector<std::int64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

TEST(EpochSlotsTest, AReplayRunsTheSlotsOfAllRanksInRoundOrder) {
  for (const PlanOptions& options : many_plans()) {
    SCOPED_TRACE(words(options));
    const Plan plan(options);
    for (const std::int64_t epoch : {0, 3}) {
      std::map<std::pair<std::int64_t, int>, What> ranks;
      for (int rank = 0; rank < options.world_size; ++rank)
        for (const Slot& slot : epoch_slots(plan, epoch, rank, true, {}, {})) {
          EXPECT_EQ(slot.virtual_rank, rank);
          EXPECT_EQ(slot.accumulator, 0);
          ranks[{slot.round, rank}] = what(slot);
        }
      std::map<std::pair<std::int64_t, int>, What> replayed;
      std::pair<std::int64_t, int> before{-1, -1};
      for (const Slot& slot : epoch_slots(plan, epoch, 0, true, replay_of(options.world_size), {})) {
        const std::pair<std::int64_t, int> place{slot.round, slot.virtual_rank};
        EXPECT_LT(before, place);
        EXPECT_EQ(slot.accumulator, slot.virtual_rank);
        before = place;
        replayed[place] = what(slot);
      }
      EXPECT_EQ(ranks, replayed);
    }
  }
}

TEST(EpochSlotsTest, InTrainingEveryRankHasABatchInEveryRoundAndEndsEachWindowOnce) {
  for (const PlanOptions& options : many_plans()) {
    SCOPED_TRACE(words(options));
    const Plan plan(options);
    for (int rank = 0; rank < options.world_size; ++rank) {
      const auto slots = epoch_slots(plan, 0, rank, true, {}, {});
      ASSERT_EQ(static_cast<std::int64_t>(slots.size()), plan.rounds());
      std::int64_t ends = 0;
      for (std::size_t i = 0; i < slots.size(); ++i) {
        EXPECT_EQ(slots[i].last, i + 1 == slots.size() || slots[i + 1].window != slots[i].window);
        EXPECT_FALSE(slots[i].batch.ids.empty());
        ends += slots[i].last ? 1 : 0;
      }
      EXPECT_EQ(ends, plan.windows());
    }
  }
}

TEST(EpochSlotsTest, ARaggedPlanGetsFillersSoThatNoRankSkipsACollective) {
  const Plan plan({.size = 21, .batch_size = 3, .world_size = 2, .uneven = Uneven::kRagged});
  const auto training = epoch_slots(plan, 0, 1, true, {}, {});
  ASSERT_EQ(training.size(), 4u);
  EXPECT_TRUE(training[3].batch.filler);
  EXPECT_EQ(training[3].batch.real, 0);
  EXPECT_EQ(training[3].batch.global_index, 7);
  EXPECT_EQ(epoch_slots(plan, 0, 1, false, {}, {}).size(), 4u);
}

TEST(EpochSlotsTest, AWholeWindowHasTheRealRowsOfAllItsBatchesInOrder) {
  Mode whole;
  whole.whole = true;
  for (const PlanOptions& options : many_plans()) {
    SCOPED_TRACE(words(options));
    const Plan plan(options);
    whole.replay_world = options.world_size;
    const auto slots = epoch_slots(plan, 1, 0, true, whole, {});
    const auto replayed = epoch_slots(plan, 1, 0, true, replay_of(options.world_size), {});
    ASSERT_EQ(static_cast<std::int64_t>(slots.size()), plan.windows());
    for (const Slot& slot : slots) {
      EXPECT_TRUE(slot.last);
      EXPECT_EQ(slot.batch.ids, real_rows(replayed, slot.window));
      EXPECT_EQ(slot.batch.real, slot.samples_set);
    }
  }
}

TEST(EpochSlotsTest, AVariationPermutesTheBatchesOfEachWindow) {
  int differ = 0;
  for (const PlanOptions& options : many_plans()) {
    SCOPED_TRACE(words(options));
    const Plan plan(options);
    const auto planned = epoch_slots(plan, 0, 0, true, replay_of(options.world_size), {});
    for (const int variation : {1, 2, 3}) {
      const auto varied = epoch_slots(plan, 0, 0, true, replay_of(options.world_size, variation), {});
      ASSERT_EQ(varied.size(), planned.size());
      std::set<std::pair<std::int64_t, std::int64_t>> planned_batches, varied_batches;
      for (std::size_t i = 0; i < planned.size(); ++i) {
        planned_batches.insert({planned[i].window, planned[i].batch.global_index});
        varied_batches.insert({varied[i].window, varied[i].batch.global_index});
        EXPECT_EQ(varied[i].last, planned[i].last);
        EXPECT_EQ(varied[i].accumulator, planned[i].accumulator);  // by position, so each has as many as before
        EXPECT_EQ(varied[i].micro_index, planned[i].micro_index);
        differ += varied[i].batch.global_index != planned[i].batch.global_index ? 1 : 0;
      }
      EXPECT_EQ(planned_batches, varied_batches);
    }
  }
  EXPECT_GT(differ, 0);
}

TEST(EpochSlotsTest, AVariationOfAWholeWindowPermutesItsRows) {
  const Plan plan({.size = 22, .batch_size = 3, .world_size = 2, .accumulation_steps = 2});
  Mode planned, varied;
  planned.whole = varied.whole = true;
  varied.variation = 1;
  const auto before = epoch_slots(plan, 0, 0, true, planned, {}), after = epoch_slots(plan, 0, 0, true, varied, {});
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(sorted(before[i].batch.ids), sorted(after[i].batch.ids));
  EXPECT_NE(before[0].batch.ids, after[0].batch.ids);
}

TEST(EpochSlotsTest, TheRealRowsOfAnEpochAreTheDatasetOnceWhateverTheRanks) {
  for (const PlanOptions& options : many_plans()) {
    if (options.uneven != Uneven::kFiller) continue;
    SCOPED_TRACE(words(options));
    const Plan plan(options);
    for (const bool training : {true, false}) {
      std::vector<std::int64_t> rows;
      for (int rank = 0; rank < options.world_size; ++rank)
        for (const Slot& slot : epoch_slots(plan, 2, rank, training, {}, {}))
          rows.insert(rows.end(), slot.batch.ids.begin(), slot.batch.ids.begin() + slot.batch.real);
      std::vector<std::int64_t> all(static_cast<std::size_t>(options.size));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
      EXPECT_EQ(sorted(rows), all);
    }
  }
}

}  // namespace
}  // namespace samerun::detail
