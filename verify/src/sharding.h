#pragma once

#include <cstdint>
#include <string>

#include "findings.h"
#include "pair_record.h"

// The two halves of the sharding check: what holds within the candidate, and what holds between the runs.
namespace samerun::verify {

struct ShardCounts {
  std::int64_t batches = 0, samples = 0;  ///< Compared with the reference's.
  std::int64_t passes = 0;
  std::string notes;  ///< What a reader should know though it is no difference.
};

/// Every sample at most once a pass, exactly once where the pass was complete; another order in another epoch.
void check_passes(const Arm& arm, Findings& findings, ShardCounts& counts);
/// Batch by batch (or, where the reference takes a step's samples at once, step by step) equal to the reference's.
void compare_shards(const PairRecord& pair, const Arm& arm, Findings& findings, ShardCounts& counts);

/// " of the float64 run", or nothing for the native one.
std::string in_arm(const Arm& arm);
/// "7, 12, 30, ..." of at most five ids.
std::string some_ids(const std::vector<std::int64_t>& ids);

}  // namespace samerun::verify
