#pragma once

#include <cstdint>

namespace samerun {

/// Where a run stands. Loader order, random streams and the resume point are pure functions of it.
struct Position {
  std::uint64_t data_seed = 0;
  std::int64_t epoch = 0;
  std::int64_t batch_index = 0;     ///< Global index of the batch within the epoch, over all ranks.
  std::int64_t micro_step = 0;      ///< Micro-batches done by this rank since the start.
  std::int64_t optimizer_step = 0;  ///< Optimizer steps completed.
  std::int64_t samples_seen = 0;    ///< Real samples over all ranks since the start.
};

}  // namespace samerun
