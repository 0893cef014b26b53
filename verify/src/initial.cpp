#include <map>

#include "check.h"
#include "findings.h"
#include "numeric.h"
#include "sharding.h"
#include "tensor_rows.h"

// Both runs, and every rank, start from the same parameters and buffers.
namespace samerun::verify {
namespace {

struct Start {
  Digest digest;
  std::string dtype;
  std::vector<std::int64_t> shape;
};
using Starts = std::map<int, std::map<std::string, Start>>;  // rank, tensor

Starts initial_state(const recorder::Reader& reader, std::int64_t run) {
  Starts starts;
  visit_tensors(reader, run, stage::kInitial, [&starts](const recorder::TensorRow& row) {
    starts[row.rank].try_emplace(row.trace.name, Start{row.trace.digest, row.trace.dtype, row.trace.shape});
    return true;
  });
  return starts;
}

std::int64_t compare_rank(const Arm& arm, int rank, const std::map<std::string, Start>& d, const std::map<std::string, Start>& r,
                          Findings& findings) {
  std::int64_t compared = 0;
  const std::string on = " on rank " + std::to_string(rank) + in_arm(arm);
  for (const auto& [tensor, start] : d) {
    const auto other = r.find(tensor);
    if (other == r.end()) {
      findings.different(at::kInitial, tensor, 0, rank, tensor + on + " is not in the reference's model");
    } else if (start.dtype != other->second.dtype || start.shape != other->second.shape) {
      findings.different(at::kInitial, tensor, 0, rank, tensor + on + " has another shape or dtype than the reference's");
    } else if (start.digest != other->second.digest) {
      findings.different(at::kInitial, tensor, 0, rank, tensor + on + " starts from other values than the reference's");
    }
    ++compared;
  }
  for (const auto& [tensor, start] : r) {
    if (d.count(tensor) == 0) findings.different(at::kInitial, tensor, 0, rank, tensor + " of the reference is missing" + on);
  }
  return compared;
}

std::int64_t compare_arm(const PairRecord& pair, const Arm& arm, Findings& findings) {
  const Starts d = initial_state(pair.reader, arm.candidate.id());
  const Starts r = initial_state(pair.reader, arm.reference.id());
  if (d.empty() || r.empty()) {
    findings.inconclusive(at::kInitial, {}, 0, "the record holds no initial state of " + run_name(d.empty() ? arm.candidate : arm.reference));
    return 0;
  }
  std::int64_t compared = 0;
  for (int rank = 0; rank < arm.candidate.world(); ++rank) {
    const auto mine = d.find(rank);
    if (mine == d.end()) {
      findings.inconclusive(at::kInitial, {}, 0, "the record holds no initial state of rank " + std::to_string(rank) + in_arm(arm));
      continue;
    }
    compared += compare_rank(arm, rank, mine->second, r.begin()->second, findings);
  }
  return compared;
}

}  // namespace

CheckResult check_initial(const PairRecord& pair) {
  Findings findings("initial");
  std::int64_t native = 0;
  for (const Arm* arm : pair.arms()) {
    const auto compared = compare_arm(pair, *arm, findings);
    if (arm == &pair.native) native = compared;
  }
  return findings.finish(count_of(native, "tensor") + " of all ranks against the reference's, bitwise");
}

}  // namespace samerun::verify
