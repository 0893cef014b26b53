#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "check.h"
#include "findings.h"
#include "numeric.h"
#include "sharding.h"

// What was asked of the two runs, and what they counted: compared bit for bit, step by step.
namespace samerun::verify {
namespace {

// Settings that make up the experiment, of the run ("seed") or of a loader ("train.data_seed"). World size, replay and
// variation differ between the runs of a pair by design.
constexpr std::string_view kExperiment[] = {"seed",          "data_seed", "dataset",       "size", "effective_batch", "threads", "uneven", "shuffle",
                                            "split_batches", "precision", "deterministic", "tf32", "model_digest"};

bool of_experiment(const Arm& arm, const std::string& key) {
  const std::string_view last = std::string_view(key).substr(key.rfind('.') + 1);
  if (last == "accumulation_steps" || last == "batch_size") return arm.reference.replays(arm.candidate.world());
  return std::find(std::begin(kExperiment), std::end(kExperiment), last) != std::end(kExperiment);
}

void compare_resolved(const Arm& arm, Findings& findings) {
  for (const auto& theirs : arm.reference.settings) {
    const auto& [key, reference, reference_origin] = theirs.setting;
    if (theirs.rank != 0 || !of_experiment(arm, key)) continue;
    for (const auto& row : arm.candidate.settings) {
      if (row.setting.key != key || row.setting.value == reference) continue;
      findings.add({{},
                    Verdict::kDifferent,
                    at::kSettings,
                    {},
                    -1,
                    row.rank,
                    0,
                    0,
                    key + in_arm(arm) + " is " + row.setting.value + " (" + row.setting.origin + "), the reference's " + reference + " (" +
                        reference_origin + ")"},
                   key);
    }
  }
}

struct Counter {
  const Arm& arm;
  Findings& findings;
  std::int64_t step;
  int rank;

  void integer(const char* stage, const std::string& name, std::int64_t d, std::int64_t r) const {
    if (d == r) return;
    findings.add({{},
                  Verdict::kDifferent,
                  stage,
                  {},
                  step,
                  rank,
                  static_cast<double>(d),
                  static_cast<double>(r),
                  name + in_arm(arm) + ": " + std::to_string(d) + ", in the reference " + std::to_string(r)},
                 name);
  }
  void real(const char* stage, const std::string& name, double d, double r, const char* advice = "") const {
    if (same_value(d, r)) return;
    findings.add({{},
                  Verdict::kDifferent,
                  stage,
                  {},
                  step,
                  rank,
                  d,
                  r,
                  name + in_arm(arm) + ": " + exact_number(d) + ", in the reference " + exact_number(r) + advice},
                 name);
  }
};

void compare_step(const PairRecord& pair, const Arm& arm, int rank, const Step& d, const Step& r, Findings& findings) {
  const Counter counter{arm, findings, d.step, rank};
  counter.integer(at::kWeights, "samples counted", d.samples_counted, r.samples_counted);
  counter.integer(at::kWeights, "samples set", d.samples_set, r.samples_set);
  if (pair.same_micro_batches) {
    counter.integer(at::kWeights, "micro-batches of the window", d.micro_batches, r.micro_batches);
    counter.real(at::kWeights, "sum of weights", d.loss_denominator, r.loss_denominator);
  }
  counter.real(at::kSettings, "clip limit", d.clip_max, r.clip_max);
  counter.integer(at::kSteps, "optimizer step", d.position.optimizer_step, r.position.optimizer_step);
  counter.integer(at::kUpdate, "skipped", d.skipped, r.skipped);
}

void counted_as_set(const Arm& arm, Findings& findings) {
  for (const auto& [rank, step] : arm.candidate.steps) {
    if (step.samples_counted == step.samples_set) continue;
    findings.add({{},
                  Verdict::kDifferent,
                  at::kWeights,
                  {},
                  step.step,
                  rank,
                  static_cast<double>(step.samples_counted),
                  static_cast<double>(step.samples_set),
                  count_of(step.samples_counted, "sample") + " counted in the step" + in_arm(arm) + ", " + std::to_string(step.samples_set) +
                      " by plan and settings"},
                 "counted");
  }
}

// Steps that one run made and the other did not.
void lone_step(const Arm& arm, std::int64_t step, int rank, bool in_candidate, Findings& findings) {
  const RunData& other = in_candidate ? arm.reference : arm.candidate;
  const std::string text = in_candidate ? "the reference" + in_arm(arm) + " did not make this step"
                                        : "the candidate" + in_arm(arm) + " did not make this step on rank " + std::to_string(rank);
  if (other.whole_record()) {
    findings.different(at::kSteps, {}, step, rank, text);
  } else {
    findings.inconclusive(at::kSteps, {}, step, text + ", but the record of " + run_name(other) + " has holes");
  }
}

std::int64_t compare_steps(const PairRecord& pair, const Arm& arm, Findings& findings) {
  std::map<std::int64_t, const Step*> reference;
  for (const Step* step : arm.reference.first_rank_steps()) reference[step->step] = step;
  std::map<int, std::set<std::int64_t>> made;
  std::int64_t compared = 0;
  for (int rank = 0; rank < arm.candidate.world(); ++rank) made[rank];
  for (const auto& [rank, step] : arm.candidate.steps) {
    made[rank].insert(step.step);
    const auto other = reference.find(step.step);
    if (other == reference.end()) {
      lone_step(arm, step.step, rank, true, findings);
      continue;
    }
    compare_step(pair, arm, rank, step, *other->second, findings);
    if (rank == 0) ++compared;
  }
  for (const auto& [rank, steps] : made) {
    for (const auto& [step, row] : reference) {
      if (steps.count(step) == 0) lone_step(arm, step, rank, false, findings);
    }
  }
  return compared;
}

struct Hyperparameter {
  const char* name;
  double GroupStep::*value;
  const char* advice = "";
};
constexpr Hyperparameter kHyperparameters[] = {
    {"learning rate", &GroupStep::learning_rate,
     "; is the schedule stepped by the handle that prepare() returned, once a step at any number of ranks?"},
    {"weight decay", &GroupStep::weight_decay},
    {"beta1", &GroupStep::beta1},
    {"beta2", &GroupStep::beta2},
    {"epsilon", &GroupStep::epsilon},
    {"momentum", &GroupStep::momentum}};

void compare_groups(const Arm& arm, Findings& findings) {
  std::map<std::pair<std::int64_t, std::int64_t>, const GroupStep*> reference;
  for (const auto& row : arm.reference.group_steps) {
    if (row.rank == 0) reference[{row.group.step, row.group.group}] = &row.group;
  }
  std::set<std::int64_t> reference_steps;
  for (const auto& [key, group] : reference) reference_steps.insert(key.first);
  for (const auto& [rank, group] : arm.candidate.group_steps) {
    const auto other = reference.find({group.step, group.group});
    const std::string where = " of parameter group " + std::to_string(group.group);
    if (other == reference.end()) {
      if (reference_steps.count(group.step) == 0) continue;  // the step itself is missing, and reported
      findings.different(at::kSettings, {}, group.step, rank,
                         "the reference" + in_arm(arm) + " has no parameter group " + std::to_string(group.group));
      continue;
    }
    const Counter counter{arm, findings, group.step, rank};
    for (const auto& [name, value, advice] : kHyperparameters) counter.real(name, name + where, group.*value, other->second->*value, advice);
    if (group.optimizer != other->second->optimizer) {
      findings.different(at::kSettings, {}, group.step, rank,
                         "the optimizer" + where + " is " + group.optimizer + ", the reference's " + other->second->optimizer);
    }
  }
}

// Same number of groups on both sides; the loop above sees only those that the candidate has.
void compare_group_counts(const Arm& arm, Findings& findings) {
  const auto count = [](const RunData& run) {
    std::set<std::int64_t> groups;
    for (const auto& row : run.group_steps) groups.insert(row.group.group);
    return groups.size();
  };
  const auto d = count(arm.candidate), r = count(arm.reference);
  if (d < r) {
    findings.different(at::kSettings, {}, 0, -1,
                       "the candidate" + in_arm(arm) + " has " + std::to_string(d) + " parameter groups, the reference " + std::to_string(r));
  }
}

}  // namespace

CheckResult check_settings(const PairRecord& pair, Decided& decided) {
  Findings findings("settings");
  for (const Arm* arm : pair.arms()) {
    compare_resolved(*arm, findings);
    counted_as_set(*arm, findings);
    const auto compared = compare_steps(pair, *arm, findings);
    if (arm == &pair.native) decided.steps = compared;
    compare_groups(*arm, findings);
    compare_group_counts(*arm, findings);
    if (arm->candidate.group_steps.empty() || arm->reference.group_steps.empty()) {
      findings.inconclusive(at::kSettings, {}, -1, "the record holds no learning rates" + in_arm(*arm));
    }
  }
  return findings.finish(count_of(decided.steps, "step") + ": counts, weights, hyperparameters, bitwise");
}

}  // namespace samerun::verify
