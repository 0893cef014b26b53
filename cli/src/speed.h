#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "samerun/profiler/efficiency.h"
#include "samerun/recorder/reader.h"

namespace samerun::cli {

/// Where one rank's part of a run's wall time went.
struct RankParts {
  int rank = 0;
  std::vector<RunPhase> parts;  ///< As profiler::whole_run() gives them.
};

/// What the record says of a run's speed; empty where it was not recorded.
struct RunSpeed {
  std::optional<profiler::StepProfile> steps;
  std::vector<RankParts> ranks;
};

RunSpeed read_speed(const recorder::Reader& reader, const recorder::RunRow& run);

/// Two sections of `samerun show`: the time of a step, and rank 0's time of the run. Empty where nothing was recorded.
std::string speed_text(const RunSpeed& speed);

/// At most 6 lines of 80 columns. `note` ends the first sentence.
std::string scaling_block(const profiler::Scaling& scaling, const std::string& note);

/// How the candidate's speed compares with that of a reference of fewer ranks, as one block. Empty where the runs do not differ in ranks or
/// their steps were not timed.
std::string scaling_text(const recorder::Reader& reader, std::int64_t candidate, std::int64_t reference);

}  // namespace samerun::cli
