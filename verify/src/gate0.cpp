#include <map>

#include "check.h"
#include "findings.h"
#include "numeric.h"
#include "sharding.h"
#include "tensor_rows.h"

// What a step left behind is what the next one finds: parameters, buffers and optimizer state, by their root digests.
namespace samerun::verify {
namespace {

struct Change {
  bool parameters = false, moments = false;
};

using Changes = std::map<std::pair<int, std::int64_t>, Change>;  // rank, the later step

Changes changes_between_steps(const RunData& run, std::int64_t& compared) {
  std::map<int, const Step*> last;
  Changes changes;
  for (const auto& [rank, step] : run.steps) {
    const Step*& before = last[rank];
    if (before != nullptr && before->step + 1 == step.step) {
      ++compared;
      const Change change{before->root_after != step.root_before, before->root_moments_after != step.root_moments_before};
      if (change.parameters || change.moments) changes[{rank, step.step}] = change;
    }
    before = &step;
  }
  return changes;
}

// Some programs change parameters between steps on purpose (weight clamping, an average swapped in). The reference does
// so too then; what it does is not checked here, so it is told and not condemned.
std::string judge_changes(const Arm& arm, Findings& findings, std::int64_t& compared) {
  std::int64_t of_reference = 0, on_purpose = 0;
  const Changes reference = changes_between_steps(arm.reference, of_reference);
  for (const auto& [where, change] : changes_between_steps(arm.candidate, compared)) {
    const auto& [rank, step] = where;
    const auto other = reference.find({0, step});
    const Change theirs = other == reference.end() ? Change{} : other->second;
    on_purpose += (change.parameters && theirs.parameters) || (change.moments && theirs.moments);
    const std::string between = " changed between the end of step " + std::to_string(step - 1) + " and the start of step " + std::to_string(step);
    if (change.parameters && !theirs.parameters) {
      findings.add({{}, Verdict::kDifferent, at::kState, {}, step, rank, 0, 0, "parameters or buffers" + in_arm(arm) + between}, "parameters");
    }
    if (change.moments && !theirs.moments) {
      findings.add({{}, Verdict::kDifferent, at::kState, {}, step, rank, 0, 0, "the optimizer's state" + in_arm(arm) + between}, "moments");
    }
  }
  return on_purpose == 0 ? "" : "; the program itself changes the state between steps, in both runs";
}

bool unchanged(const PairRecord& pair, const RunData& run) {
  const auto steps = run.first_rank_steps();
  if (steps.empty()) return false;
  return steps.front()->root_before == steps.back()->root_after || all_zero(pair.reader, run.id(), stage::kUpdate);
}

void steps_change_parameters(const PairRecord& pair, const Arm& arm, Findings& findings) {
  const auto steps = arm.candidate.first_rank_steps();
  if (steps.empty() || !unchanged(pair, arm.candidate) || unchanged(pair, arm.reference)) return;
  findings.different(at::kUpdate, {}, steps.front()->step, -1, "the candidate's parameters" + in_arm(arm) + " never changed; the reference's did");
}

// An optimizer that keeps state changes it whenever it steps, whatever the gradients and however small the learning rate.
void steps_change_moments(const Arm& arm, Findings& findings) {
  std::map<std::int64_t, const Step*> reference;
  for (const Step* step : arm.reference.first_rank_steps()) reference[step->step] = step;
  for (const auto& [rank, step] : arm.candidate.steps) {
    const auto theirs = reference.find(step.step);
    if (theirs == reference.end() || step.root_moments_before != step.root_moments_after) continue;
    if (theirs->second->root_moments_before == theirs->second->root_moments_after) continue;
    findings.add(
        {{},
         Verdict::kDifferent,
         at::kUpdate,
         {},
         step.step,
         rank,
         0,
         0,
         "the optimizer did not step" + in_arm(arm) + ": step " + std::to_string(step.step) + " left its state as it was, the reference's moved"},
        "no step");
  }
}

}  // namespace

CheckResult check_gate0(const PairRecord& pair) {
  Findings findings("gate0");
  std::int64_t native = 0;
  std::string notes;
  for (const Arm* arm : pair.arms()) {
    std::int64_t compared = 0;
    const auto note = judge_changes(*arm, findings, compared);
    if (arm == &pair.native) native = compared, notes = note;
    steps_change_parameters(pair, *arm, findings);
    steps_change_moments(*arm, findings);
  }
  if (native == 0 && pair.native.candidate.first_rank_steps().size() > 1) {
    findings.inconclusive(at::kState, {}, -1, "the record holds no two consecutive steps of the candidate");
  }
  return findings.finish("state from step to step, bitwise, " + count_of(native, "time") + notes);
}

}  // namespace samerun::verify
