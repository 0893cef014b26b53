#include "samerun/profiler/whole_run.h"

namespace samerun::profiler {

std::vector<RunPhase> whole_run(const RunTimes& times) {
  if (times.phases.empty()) return {};
  std::vector<RunPhase> parts{{"launch", times.rank_start_utc_ns - times.started_utc_ns}};
  std::int64_t left_ns = times.ended_utc_ns - times.rank_start_utc_ns;
  for (const auto& phase : times.phases) {
    parts.push_back(phase);
    left_ns -= phase.ns;
  }
  parts.push_back({"shutdown", left_ns});
  return parts;
}

}  // namespace samerun::profiler
