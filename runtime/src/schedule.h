#pragma once

#include <cstdint>
#include <vector>

#include "launch_environment.h"
#include "samerun/core/plan.h"
#include "seams.h"

namespace samerun::detail {

/// One micro-batch of this process, with its place in the window.
struct Slot {
  BatchRef batch;
  std::int64_t round = 0;
  int virtual_rank = 0;          ///< Whose batch it is; the process's rank unless it replays.
  int accumulator = 0;           ///< Which running gradient it is added to: the virtual rank, but for variations.
  std::int64_t micro_index = 0;  ///< Index among its accumulator's micro-batches in the window.
  std::int64_t window = 0;       ///< Index of the window in the epoch.
  bool last = false;             ///< Ends the window on this process.
  std::int64_t samples_set = 0;  ///< Real samples of the window over all ranks, by the plan.
};

/// Which slots a process runs in an epoch. Three ways:
///  - a rank of N: its batch of each round;
///  - a replay of N ranks on one: round j's batches of ranks 0..N-1, one accumulator a rank. A variation v >= 1 permutes the
///    micro-batches of each window and spreads them over the accumulators by position: another legal order of the same sum;
///  - whole: one slot a window with all its real rows; a variation permutes the rows.
/// A rank without a batch (ragged plans) gets a filler, so that no rank waits for a collective that it skips.
std::vector<Slot> epoch_slots(const Plan& plan, std::int64_t epoch, int rank, bool training, const Mode& mode, const Seams& seams);

}  // namespace samerun::detail
