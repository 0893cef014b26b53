#include "schedule.h"

#include <algorithm>
#include <utility>

#include "samerun/core/stream.h"

namespace samerun::detail {
namespace {

BatchRef filler_of(const Plan& plan, std::int64_t epoch, std::int64_t round, int rank) {
  BatchRef filler = plan.at(epoch, 0, 0).value();
  filler.global_index = round * plan.options().world_size + rank;
  filler.real = 0;
  filler.filler = true;
  return filler;
}

BatchRef batch_of(const Plan& plan, std::int64_t epoch, std::int64_t round, int rank, bool training, const Seams& seams) {
  auto batch = seams.batch ? seams.batch(plan, epoch, round, rank, training) : plan.at(epoch, round, rank);
  return batch ? *batch : filler_of(plan, epoch, round, rank);
}

template <class T>
void permute(std::vector<T>& items, std::uint64_t key) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[counter_random(key, i) % i]);
}

std::uint64_t variation_key(const Mode& mode, std::int64_t epoch, std::int64_t window) {
  return stream_key({static_cast<std::uint64_t>(mode.variation), "variation", epoch, window});
}

/// The slots of one window when one process replays all ranks.
std::vector<Slot> replay_window(const Plan& plan, std::int64_t epoch, const WindowRange& window, bool training, const Mode& mode,
                                const Seams& seams) {
  const int world = plan.options().world_size;
  std::vector<Slot> slots;
  for (auto round = window.first_round; round < window.end_round; ++round) {
    for (int rank = 0; rank < world; ++rank) {
      slots.push_back({batch_of(plan, epoch, round, rank, training, seams), round, rank, rank, round - window.first_round, window.index, false, 0});
    }
  }
  if (mode.variation > 0 && training) {
    permute(slots, variation_key(mode, epoch, window.index));
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i].accumulator = static_cast<int>(i) % world;
      slots[i].micro_index = static_cast<std::int64_t>(i) / world;
    }
  }
  return slots;
}

/// One slot with every real row of the window.
Slot whole_window(const Plan& plan, std::int64_t epoch, const WindowRange& window, const Mode& mode, const Seams& seams) {
  Slot slot;
  slot.window = window.index;
  slot.round = window.first_round;
  slot.batch.global_index = window.first_round * plan.options().world_size;
  for (auto round = window.first_round; round < window.end_round; ++round) {
    for (int rank = 0; rank < plan.options().world_size; ++rank) {
      const auto batch = batch_of(plan, epoch, round, rank, true, seams);
      slot.batch.ids.insert(slot.batch.ids.end(), batch.ids.begin(), batch.ids.begin() + batch.real);
    }
  }
  slot.batch.real = static_cast<std::int64_t>(slot.batch.ids.size());
  if (mode.variation > 0) permute(slot.batch.ids, variation_key(mode, epoch, window.index));
  return slot;
}

std::vector<Slot> window_slots(const Plan& plan, std::int64_t epoch, const WindowRange& window, int rank, bool training, const Mode& mode,
                               const Seams& seams) {
  if (mode.whole && training) return {whole_window(plan, epoch, window, mode, seams)};
  if (mode.replay_world > 0) return replay_window(plan, epoch, window, training, mode, seams);
  std::vector<Slot> slots;
  for (auto round = window.first_round; round < window.end_round; ++round) {
    slots.push_back({batch_of(plan, epoch, round, rank, training, seams), round, rank, 0, round - window.first_round, window.index, false, 0});
  }
  return slots;
}

}  // namespace

std::vector<Slot> epoch_slots(const Plan& plan, std::int64_t epoch, int rank, bool training, const Mode& mode, const Seams& seams) {
  std::vector<Slot> all;
  for (std::int64_t round = 0; round < plan.rounds();) {
    const auto window = plan.window(round);
    auto slots = window_slots(plan, epoch, window, rank, training, mode, seams);
    for (auto& slot : slots) slot.samples_set = plan.samples_in_window(round);
    if (!slots.empty()) slots.back().last = true;
    std::move(slots.begin(), slots.end(), std::back_inserter(all));
    round = window.end_round;
  }
  return all;
}

}  // namespace samerun::detail
