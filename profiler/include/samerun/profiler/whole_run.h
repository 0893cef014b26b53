#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "samerun/core/event.h"

namespace samerun::profiler {

/// A run as one rank and its launcher saw it. Times: nanoseconds since 1970 UTC.
struct RunTimes {
  std::int64_t started_utc_ns = 0, ended_utc_ns = 0;  ///< Of the launcher.
  std::int64_t rank_start_utc_ns = 0;                 ///< RankStart::utc_ns.
  std::vector<RunPhase> phases;                       ///< Of that rank.
};

/// "launch", what the rank recorded, "shutdown": in order of time, summing to the run's wall time exactly. Shutdown is what is left, so
/// it holds what the clock was set by between the ends. Empty where the rank recorded no end.
std::vector<RunPhase> whole_run(const RunTimes& times);

}  // namespace samerun::profiler
