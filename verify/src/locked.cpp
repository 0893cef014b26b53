#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "check.h"
#include "findings.h"
#include "local_gradients.h"
#include "numeric.h"
#include "sharding.h"
#include "tensor_rows.h"

// Tier S: single steps, locked to the candidate's own state, judged on the distances that the reference measured.
namespace samerun::verify {
namespace {

struct Stage {
  const char* row;
  const char* finding;
  const char* what;
};
constexpr Stage kStages[] = {{"local", at::kLocal, "local gradient"},     {"reduced", at::kReduced, "reduced gradient"},
                             {"norm", at::kNorm, "norm of the gradient"}, {"clip", at::kClipped, "clipped gradient"},
                             {"update", at::kUpdate, "update"},           {"moment1", at::kState, "first moment"},
                             {"moment2", at::kState, "second moment"},    {"loss", at::kLoss, "sum of losses"}};

class LockedArm {
 public:
  LockedArm(const PairRecord& pair, const Arm& arm, Findings& findings, Curves& curves)
      : pair_(pair), arm_(arm), findings_(findings), curves_(curves), facts_(tensor_facts(pair.reader, arm.candidate.id(), stage::kRaw)) {
    for (const auto& [tensor, fact] : facts_) {
      largest_ = std::max(largest_, fact.numel);
      if (coarsest_.empty() || unit_roundoff(fact.dtype) > unit_roundoff(coarsest_)) coarsest_ = fact.dtype;
    }
  }

  void run() {
    local_ = compare_local_gradients(pair_, arm_, findings_);
    for (const auto& row : arm_.reference.locked) {
      if (row.of_run != arm_.candidate.id()) continue;
      const auto* stage = std::find_if(std::begin(kStages), std::end(kStages), [&row](const Stage& s) { return row.stage == s.row; });
      if (stage == std::end(kStages)) continue;
      judge(row, *stage);
      stages_[row.step][row.name].insert(row.stage);
      rows_ += 1;
    }
  }

  bool empty() const { return rows_ == 0 && local_.empty(); }
  const Closest& closest() const { return closest_; }
  std::int64_t equal_digests() const { return sum(&LocalStep::equal); }
  std::int64_t digests() const { return sum(&LocalStep::compared); }

  std::set<std::int64_t> steps() const {
    std::set<std::int64_t> steps;
    for (const auto& [step, local] : local_) {
      if (local.complete && stages_.count(step) != 0) steps.insert(step);
    }
    return steps;
  }

  /// Tensors of which nothing of a locked step is missing.
  std::set<std::string> complete_tensors(std::set<std::string>& reasons) const {
    std::set<std::string> complete;
    for (const auto& [tensor, fact] : facts_) {
      std::string missing = "no locked step was recorded";
      for (const auto step : steps()) {
        missing = missing_stage(step, tensor);
        if (missing.empty()) break;
      }
      if (missing.empty()) {
        complete.insert(tensor);
      } else {
        reasons.insert(tensor + ": " + missing + in_arm(arm_));
      }
    }
    return complete;
  }

  /// Tensors whose update no locked step replayed: the reference cannot replay every optimizer.
  std::set<std::string> without_update() const {
    std::set<std::string> without;
    for (const auto& [tensor, fact] : facts_) {
      const auto has_update = [&tensor = tensor](const auto& step) {
        const auto found = step.second.find(tensor);
        return found != step.second.end() && found->second.count("update") != 0;
      };
      if (std::none_of(stages_.begin(), stages_.end(), has_update)) without.insert(tensor);
    }
    return without;
  }

 private:
  std::int64_t sum(std::int64_t LocalStep::*count) const {
    std::int64_t total = 0;
    for (const auto& [step, local] : local_) total += local.*count;
    return total;
  }

  std::string dtype_of(const LockedRow& row) const {
    if (row.precision == "float64" || coarsest_.empty()) return row.precision;
    const auto fact = facts_.find(row.name);  // rows about all tensors have no name
    return fact == facts_.end() ? coarsest_ : fact->second.dtype;
  }

  double limit_of(const LockedRow& row) const {
    const std::string dtype = dtype_of(row);
    const auto fact = facts_.find(row.name);
    const std::int64_t numel = fact == facts_.end() ? 1 : fact->second.numel;
    if (row.stage == "local") return 0;
    if (row.stage == "reduced" || row.stage == "loss") return sum_limit(row.terms, row.scale, dtype, numel);
    if (row.stage == "norm") return norm_tolerance(unit_roundoff(dtype), largest_) * row.scale;
    // squares of small gradients underflow in float32, and not in the float64 replay
    return kBandFactor *
           (unit_roundoff(dtype) * row.scale + smallest_subnormal(dtype) * std::sqrt(static_cast<double>(std::max<std::int64_t>(numel, 1))));
  }

  void judge(const LockedRow& row, const Stage& stage) {
    const std::string what = row.name + (row.name.empty() ? "" : ": ") + stage.what + in_arm(arm_) + " of locked step " + std::to_string(row.step);
    if (!std::isfinite(row.distance) || !std::isfinite(row.scale)) {
      // the reference compared kinds and places of the non-finite values, and says so
      if (row.text.find("same kinds and places") != std::string::npos) return;
      findings_.different(stage.finding, row.name, row.step, -1, what + " is not finite where the reference's is", row.distance, 0);
      return;
    }
    const double limit = limit_of(row);
    if (limit > 0 && !row.name.empty())
      curves_.see({row.name, stage.what, row.precision == "float64" ? "locked64" : "locked"}, row.step, row.distance, limit, row.scale);
    if (row.distance <= limit) {
      closest_.see(row.distance, limit, std::string(stage.what) + (row.name.empty() ? "" : ", " + row.name));
      return;
    }
    std::string text = what + " is off by " + number(row.distance) + ", allowed are " + number(limit);
    const auto fraction = simple_fraction(1 + row.common_scale, arm_.candidate.world(), windows());
    if (!fraction.empty()) text += "; it is " + fraction + " times the reference's";
    if (!row.text.empty()) text += " (" + row.text + ")";
    findings_.different(stage.finding, row.name, row.step, -1, text, row.distance, limit);
  }

  std::int64_t windows() const {
    const std::string text = arm_.candidate.setting("accumulation_steps");
    return text.empty() || text.find_first_not_of("0123456789") != std::string::npos || text.size() > 9 ? 1 : std::stoll(text);
  }

  // What tier S lacks to decide `tensor` at `step`; empty when nothing.
  std::string missing_stage(std::int64_t step, const std::string& tensor) const {
    const auto& stages = stages_.at(step);
    const auto of_all = stages.find(std::string());
    const auto of_tensor = stages.find(tensor);
    const auto has = [](const auto& found, const auto& end, const char* stage) { return found != end && found->second.count(stage) != 0; };
    const Step* at_step = nullptr;
    for (const Step* row : arm_.candidate.first_rank_steps()) {
      if (row->step == step) at_step = row;
    }
    const bool skipped = at_step != nullptr && at_step->skipped;
    const bool clipped = at_step != nullptr && at_step->clip_max >= 0;
    const bool moments = std::any_of(stages.begin(), stages.end(), [](const auto& entry) { return entry.second.count("moment1") != 0; });
    if (local_.at(step).tensors.count(tensor) == 0) return "no local gradient was compared";
    if (!has(of_tensor, stages.end(), "reduced")) return "its reduced gradient was not measured";
    if (clipped && !skipped && !has(of_all, stages.end(), "norm")) return "the norm was not measured";
    if (clipped && !skipped && !has(of_tensor, stages.end(), "clip")) return "its clipped gradient was not measured";
    if (!skipped && moments && !has(of_tensor, stages.end(), "moment1")) return "its moments were not measured";
    return {};
  }

  const PairRecord& pair_;
  const Arm& arm_;
  Findings& findings_;
  Curves& curves_;
  std::map<std::string, TensorFact> facts_;
  std::int64_t largest_ = 0;
  std::string coarsest_;
  std::map<std::int64_t, LocalStep> local_;
  std::map<std::int64_t, std::map<std::string, std::set<std::string>>> stages_;  // step, tensor, stages measured
  std::int64_t rows_ = 0;
  Closest closest_;
};

std::string summary_of(const LockedArm& arm, const std::set<std::int64_t>& steps) {
  std::string text = steps.empty() ? "tier S" : "step " + std::to_string(*steps.begin());
  if (steps.size() > 1) text += " and " + std::to_string(steps.size() - 1) + " more";
  text += ": " + std::to_string(arm.equal_digests()) + " of " + std::to_string(arm.digests()) + " local gradients bitwise" + arm.closest().text();
  const auto without = static_cast<std::int64_t>(arm.without_update().size());
  return without == 0 ? text : text + "; updates of " + count_of(without, "tensor") + " left to the float64 runs";
}

}  // namespace

CheckResult check_locked(const PairRecord& pair, Decided& decided) {
  Findings findings("locked");
  if (pair.whole_reference) {
    return findings.finish("not applicable to whole batches; rests on the float64 runs");
  }
  LockedArm native(pair, pair.native, findings, decided.curves);
  native.run();
  decided.locked_steps = native.steps();
  decided.by_lock = native.complete_tensors(decided.undecided_reason);
  decided.without_update = native.without_update();
  const std::string why = pair.native.reference.event("locked-step");
  if (native.empty()) {
    findings.inconclusive(
        at::kLocal, {}, -1,
        "no step of the candidate was replayed micro-batch by micro-batch" + (why.empty() ? "; `samerun pair` locks step 0" : ": " + why));
    return findings.finish("tier S: nothing recorded");
  }
  if (decided.locked_steps.empty()) {
    findings.inconclusive(at::kLocal, {}, -1, "the locked step is not whole: " + (why.empty() ? "local gradients or distances are missing" : why));
  }
  if (pair.arms().size() > 1) {
    LockedArm shadow(pair, *pair.shadow, findings, decided.curves);
    shadow.run();
    std::set<std::string> reasons;
    decided.by_lock64 = shadow.complete_tensors(reasons);
  }
  return findings.finish(summary_of(native, decided.locked_steps));
}

}  // namespace samerun::verify
