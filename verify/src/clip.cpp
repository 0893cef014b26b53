#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "check.h"
#include "findings.h"
#include "numeric.h"
#include "sharding.h"
#include "tensor_rows.h"

// On every step: the norm is that of the recorded gradients, the factor is that of the norm, and every clipped gradient is
// the raw one times that one factor.
namespace samerun::verify {
namespace {

double coefficient(double max_norm, double norm) {
  return std::min(1.0, max_norm / (norm + 1e-6));
}

struct RawTensor {
  double norm = 0;
  Folded folded{};
  bool has_sketch = false;
  std::int64_t numel = 0;
};

struct RawStep {
  long double squares = 0;
  double unit = 0;
  std::int64_t largest = 0;
  std::map<int, RawTensor> tensors;  // only where clipping changed the gradients
  double norm() const { return static_cast<double>(std::sqrt(squares)); }
};

class ClipArm {
 public:
  ClipArm(const PairRecord& pair, const Arm& arm, Findings& findings, Curves& curves) : pair_(pair), arm_(arm), findings_(findings), curves_(curves) {
    for (const Step* step : arm.candidate.first_rank_steps()) steps_[step->step] = step;
  }

  void run() {
    untouched_steps();
    if (called_.empty()) return;
    raw_ = read_raw(arm_.candidate, true);
    for (const auto step : called_) judge_norm(*steps_.at(step));
    if (whole_norm_) judge_clipped();
  }

  std::size_t called() const { return called_.size(); }
  std::int64_t norms() const { return norms_; }
  std::int64_t clipped() const { return clipped_; }
  const std::string& notes() const { return notes_; }
  const Closest& closest() const { return closest_; }

 private:
  // Without a call, and where the factor was 1, clipping leaves every bit alone.
  void untouched_steps() {
    for (const auto& [number_of, step] : steps_) {
      const bool finite = std::isfinite(step->norm_raw) && !step->skipped;
      if (step->clip_max >= 0) {
        if (finite) called_.insert(number_of);
        if (finite && step->root_raw != step->root_clipped) active_.insert(number_of);
      } else if (step->root_raw != step->root_clipped) {
        findings_.different(at::kClipped, {}, number_of, 0,
                            "the gradients" + in_arm(arm_) + " changed after the reduction, though they were not clipped");
      }
    }
  }

  std::map<std::int64_t, RawStep> read_raw(const RunData& run, bool keep) {
    std::map<std::int64_t, RawStep> steps;
    visit_tensors(pair_.reader, run.id(), stage::kRaw, [&](const recorder::TensorRow& row) {
      if (row.rank != 0 || called_.count(row.trace.step) == 0) return true;
      RawStep& step = steps[row.trace.step];
      step.squares += static_cast<long double>(row.trace.norm) * row.trace.norm;
      step.unit = std::max(step.unit, unit_roundoff(row.trace.dtype));
      step.largest = std::max(step.largest, row.trace.numel);
      if (keep && active_.count(row.trace.step) != 0) {
        step.tensors[names_.id(row.trace.name)] = {row.trace.norm, fold_sketch(row.trace.sketch), !row.trace.sketch.empty(), row.trace.numel};
      }
      return true;
    });
    return steps;
  }

  void judge_norm(const Step& step) {
    const auto raw = raw_.find(step.step);
    if (raw == raw_.end()) return;
    const double norm = raw->second.norm();
    const double unit = raw->second.unit;
    const double limit = norm_tolerance(unit, raw->second.largest) * norm;
    ++norms_;
    if (std::abs(step.norm_raw - norm) > limit) {
      if (norm_of_some_tensors(step)) return;
      findings_.different(
          at::kNorm, {}, step.step, 0,
          "the norm that clipping saw" + in_arm(arm_) + " is " + number(step.norm_raw) + ", that of the reduced gradients " + number(norm),
          std::abs(step.norm_raw - norm), limit);
      return;
    }
    closest_.see(std::abs(step.norm_raw - norm), limit, "norm, step " + std::to_string(step.step));
    judge_factor(step, unit);
  }

  // A program may clip a part of its parameters. The reference's norm is then short by itself too.
  bool norm_of_some_tensors(const Step& step) {
    if (of_reference_.empty()) of_reference_ = read_raw(arm_.reference, false);
    for (const Step* theirs : arm_.reference.first_rank_steps()) {
      const auto raw = of_reference_.find(theirs->step);
      if (theirs->step != step.step || raw == of_reference_.end()) continue;
      const double norm = raw->second.norm();
      if (std::abs(theirs->norm_raw - norm) <= norm_tolerance(raw->second.unit, raw->second.largest) * norm) return false;
      whole_norm_ = false;
      notes_ = "; the program's norm is not that of all tensors, in both runs: left to tier S";
      return true;
    }
    return false;
  }

  void judge_factor(const Step& step, double unit) {
    const double slack = 8 * unit;  // the factor itself is rounded to the gradients' dtype
    const double least = coefficient(step.clip_max, step.norm_raw * (1 + 16 * unit)) * (1 - slack);
    const double most = coefficient(step.clip_max, step.norm_raw * (1 - 16 * unit)) * (1 + slack);
    const double expected = coefficient(step.clip_max, step.norm_raw);
    const bool unclipped = active_.count(step.step) == 0;
    const double factor = unclipped ? 1 : step.clip_factor;
    if (factor >= least && factor <= most) return;
    const std::string what =
        unclipped ? "the gradients" + in_arm(arm_) + " were left as they were" : "the clip factor" + in_arm(arm_) + " is " + exact_number(factor);
    findings_.different(at::kClipped, {}, step.step, 0,
                        what + ", norm " + number(step.norm_raw) + " and limit " + number(step.clip_max) + " make it " + exact_number(expected),
                        std::abs(factor - expected), std::max(most - expected, expected - least));
  }

  void judge_clipped() {
    if (active_.empty()) return;
    visit_tensors(pair_.reader, arm_.candidate.id(), stage::kClipped, [&](const recorder::TensorRow& row) {
      const auto step = raw_.find(row.trace.step);
      if (row.rank != 0 || step == raw_.end() || step->second.tensors.empty()) return true;
      const auto raw = step->second.tensors.find(names_.id(row.trace.name));
      if (raw == step->second.tensors.end()) return true;
      judge_tensor(row.trace, raw->second, *steps_.at(row.trace.step));
      return true;
    });
  }

  void judge_tensor(const TensorTrace& clipped, const RawTensor& raw, const Step& step) {
    ++clipped_;
    const double unit = unit_roundoff(clipped.dtype);
    const double underflow = smallest_subnormal(clipped.dtype) * std::sqrt(static_cast<double>(std::max<std::int64_t>(raw.numel, 1)));
    const double limit = kBandFactor * (unit * raw.norm + underflow);
    double distance = std::abs(clipped.norm - step.clip_factor * raw.norm);
    if (raw.has_sketch && !clipped.sketch.empty()) {
      const Folded folded = fold_sketch(clipped.sketch);
      double squares = 0;
      for (std::size_t i = 0; i < folded.size(); ++i) squares += std::pow(folded[i] - step.clip_factor * raw.folded[i], 2);
      distance = std::max(distance, std::sqrt(squares));
    }
    if (&arm_ == &pair_.native && std::isfinite(distance))
      curves_.see({clipped.name, at::kClipped, arm_.name}, step.step, distance, limit, clipped.norm);
    if (distance <= limit) return closest_.see(distance, limit, clipped.name + ", step " + std::to_string(step.step));
    findings_.different(at::kClipped, clipped.name, step.step, 0,
                        clipped.name + in_arm(arm_) + " after clipping is not its gradient times " + number(step.clip_factor) + ": off by " +
                            number(distance) + ", allowed are " + number(limit),
                        distance, limit);
  }

  const PairRecord& pair_;
  const Arm& arm_;
  Findings& findings_;
  Curves& curves_;
  Names names_;
  std::map<std::int64_t, const Step*> steps_;
  std::set<std::int64_t> called_, active_;  // steps that clipped, and those whose gradients it changed
  std::map<std::int64_t, RawStep> raw_, of_reference_;
  bool whole_norm_ = true;
  std::int64_t norms_ = 0, clipped_ = 0;
  std::string notes_;
  Closest closest_;
};

}  // namespace

CheckResult check_clip(const PairRecord& pair, Decided& decided) {
  Findings findings("clip");
  std::string summary;
  for (const Arm* arm : pair.arms()) {
    ClipArm clip(pair, *arm, findings, decided.curves);
    clip.run();
    if (arm != &pair.native) continue;
    if (clip.called() == 0) {
      summary = "not clipped; unchanged after the reduction";
      continue;
    }
    summary = count_of(clip.norms(), "norm") + " and factors, " + count_of(clip.clipped(), "clipped gradient") + clip.closest().text() + clip.notes();
    if (clip.norms() < static_cast<std::int64_t>(clip.called())) {
      findings.inconclusive(at::kNorm, {}, -1,
                            "gradients of " + std::to_string(clip.norms()) + " of the " + std::to_string(clip.called()) +
                                " clipped steps were kept; `--record full` keeps all");
    }
  }
  return findings.finish(summary);
}

}  // namespace samerun::verify
