#pragma once

#include <set>
#include <string>
#include <vector>

#include "curves.h"
#include "pair_record.h"
#include "samerun/verify/verify.h"

namespace samerun::verify {

/// What the checks learn about tensors on their way; coverage is judged on it at the end.
struct Decided {
  std::set<std::string> trained;             ///< Tensors with a reduced gradient in either run.
  std::set<std::string> by_shadow;           ///< Free-running float64 gradients had the power to decide them.
  std::set<std::string> by_lock, by_lock64;  ///< Every micro-batch and stage of a locked step was compared.
  std::set<std::string> without_update;      ///< Whose update no locked step replayed.
  std::set<std::string> undecided_reason;    ///< "tensor: why" of those that a check could not decide.
  std::set<std::int64_t> locked_steps;       ///< Of the native runs.
  std::int64_t steps = 0, shadow_steps = 0;
  std::vector<std::string> unjudged_metrics;  ///< "name (why)" of those that no comparison decided.
  Curves curves;                              ///< Distances that were judged, for a plot.
};

// Each check reads the record only and returns what it found; none throws on a finding. What a check claims, its
// formula and what it cannot see stand in CHECKS.md.

CheckResult check_comparable(const PairRecord& pair);  ///< Evidence of it refuses the comparison.
CheckResult check_sharding(const PairRecord& pair);
CheckResult check_settings(const PairRecord& pair, Decided& decided);
CheckResult check_gate0(const PairRecord& pair);
CheckResult check_replicas(const PairRecord& pair);
CheckResult check_initial(const PairRecord& pair);
CheckResult check_locked(const PairRecord& pair, Decided& decided);
CheckResult check_gradient(const PairRecord& pair, Decided& decided);
CheckResult check_clip(const PairRecord& pair, Decided& decided);
CheckResult check_metrics(const PairRecord& pair, Decided& decided);
CheckResult check_coverage(const PairRecord& pair, Decided& decided, Coverage& coverage);

/// What the pair did not put to the test, one sentence each.
std::vector<std::string> not_exercised(const PairRecord& pair);

}  // namespace samerun::verify
