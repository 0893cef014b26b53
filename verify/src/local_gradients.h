#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "findings.h"
#include "pair_record.h"

namespace samerun::verify {

/// What was compared of the local gradients of one locked step.
struct LocalStep {
  std::int64_t equal = 0, compared = 0;  ///< Digests.
  bool complete = false;                 ///< Every micro-batch of every rank was recorded by both runs.
  std::set<std::string> tensors;         ///< With a local gradient in both runs.
};

/// S0 of tier S: the running gradient of each (virtual rank, micro-batch, tensor) of the candidate equals the
/// reference's, bit for bit. By step.
std::map<std::int64_t, LocalStep> compare_local_gradients(const PairRecord& pair, const Arm& arm, Findings& findings);

}  // namespace samerun::verify
