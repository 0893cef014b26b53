#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "check.h"
#include "findings.h"
#include "free_run.h"
#include "numeric.h"

// Free-running float64 gradients against the reference's, in multiples of the noise of legal re-executions.
namespace samerun::verify {
namespace {

// With fewer re-executions the noise is not known, and only what lies below the floor can be judged.
constexpr std::size_t kFewestReruns = 2;

std::string describe(const Cell& cell, const Arm& arm) {
  const double ratio = 1 + cell.alpha;
  const auto fraction = simple_fraction(ratio, arm.candidate.world(),
                                        std::max<std::int64_t>(1, arm.candidate.first_rank_steps().front()->micro_batches / arm.candidate.world()));
  if (!fraction.empty() && cell.share > 0.999) return "; it is " + fraction + " times the reference's";
  if (cell.share > 0.999) return "; scaled by " + exact_number(ratio);
  const double relative = cell.distance / cell.r_norm;
  if (relative > kDecided && relative < 1e-6) return "; of the size of float32 rounding: a float32 value inside the float64 run?";
  return {};
}

class Judge {
 public:
  Judge(const PairRecord& pair, const FreeRun& run, Findings& findings, Decided& decided)
      : pair_(pair), run_(run), findings_(findings), decided_(decided) {}

  void all() {
    for (std::size_t i = 0; i < run_.steps().size(); ++i) {
      if (!run_.kept(i)) continue;
      ++kept_;
      for (int tensor = 0; tensor < run_.names().size(); ++tensor) judge(i, tensor);
    }
    for (const auto& tensor : powered_) {
      if (weak_.count(tensor) == 0) decided_.by_shadow.insert(tensor);
    }
    for (const auto& [tensor, why] : weak_) decided_.undecided_reason.insert(tensor + ": " + why);
    decided_.shadow_steps = kept_;
  }

  std::int64_t kept() const { return kept_; }
  std::size_t weak() const { return weak_.size(); }
  const Closest& closest() const { return closest_; }

 private:
  void judge(std::size_t i, int tensor) {
    const Cell* cell = run_.cell(i, tensor);
    if (cell == nullptr || (!cell->has_d && !cell->has_r)) return;
    const std::string& name = run_.names().name(tensor);
    const std::int64_t step = run_.steps()[i];
    if (cell->has_d != cell->has_r) return lone(*cell, name, step);
    if (!std::isfinite(cell->r_norm) || !std::isfinite(cell->d_norm)) return not_finite(*cell, name, step);
    if (!cell->equal && !cell->has_distance) {
      weak_.try_emplace(name, "no sketch was kept at step " + std::to_string(step) + "; `--record full` keeps all");
      return;
    }
    const double limit = kBandFactor * std::max(run_.noise(i, tensor), kUnit64 * cell->r_norm);
    decided_.curves.see({name, at::kReduced, pair_.shadow->name}, step, cell->distance, limit, cell->r_norm);
    if (cell->distance > limit) return exceeds(*cell, name, step, limit);
    closest_.see(cell->distance, limit, name + ", step " + std::to_string(step));
    if (cell->r_norm == 0) return;  // a zero gradient shows nothing
    if (limit / cell->r_norm <= kDecided) {
      powered_.insert(name);
    } else {
      weak_.try_emplace(name,
                        "rounding noise at step " + std::to_string(step) + " is " + number(limit / kBandFactor / cell->r_norm) + " of the gradient");
    }
  }

  // A tensor that no sample of the step touched may have no gradient at all in one run and zeros in the other.
  void lone(const Cell& cell, const std::string& name, std::int64_t step) {
    if ((cell.has_d ? cell.d_norm : cell.r_norm) == 0) return;
    const RunData& other = cell.has_d ? pair_.shadow->reference : pair_.shadow->candidate;
    const std::string text = name + " has a reduced gradient in the " + (cell.has_d ? "candidate" : "reference") + "'s float64 run only";
    if (other.whole_record()) {
      findings_.different(at::kReduced, name, step, -1, text);
    } else {
      findings_.inconclusive(at::kReduced, name, step, text + ", but the record of " + run_name(other) + " has holes");
    }
  }

  void not_finite(const Cell& cell, const std::string& name, std::int64_t step) {
    if (cell.equal) return;
    const bool same_kind = same_value(cell.d_norm, cell.r_norm);
    if (same_kind) {
      findings_.inconclusive(at::kReduced, name, step, name + " is not finite in either float64 run, and the bits differ");
    } else {
      findings_.different(at::kReduced, name, step, -1, name + " is not finite in one float64 run only", cell.d_norm, cell.r_norm);
    }
  }

  void exceeds(const Cell& cell, const std::string& name, std::int64_t step, double limit) {
    const double unit = cell.r_norm > 0 ? cell.r_norm : 1;
    if (pair_.reruns.size() < kFewestReruns) {
      findings_.inconclusive(at::kReduced, name, step,
                             name + ": the float64 gradients differ by " + number(cell.distance / unit) +
                                 " of their norm, and no re-executions tell how large rounding is");
      weak_.try_emplace(name, "no re-executions were recorded");
      return;
    }
    powered_.insert(name);  // decided, against the candidate
    const std::string text = name + ": reduced gradient of the float64 run is off by " + number(cell.distance / unit) +
                             (cell.r_norm > 0 ? " of its norm" : " (the reference's is zero)") + ", allowed are " + number(limit / unit) +
                             describe(cell, *pair_.shadow);
    findings_.different(at::kReduced, name, step, -1, text, cell.distance / unit, limit / unit);
  }

  const PairRecord& pair_;
  const FreeRun& run_;
  Findings& findings_;
  Decided& decided_;
  std::set<std::string> powered_;
  std::map<std::string, std::string> weak_;
  std::int64_t kept_ = 0;
  Closest closest_;
};

}  // namespace

CheckResult check_gradient(const PairRecord& pair, Decided& decided) {
  Findings findings("gradient");
  if (!pair.shadow) {
    findings.inconclusive(
        at::kReduced, {}, -1,
        pair.shadow_missing +
            ": beyond the locked step no gradient was compared; `samerun pair` without `--shadow-steps 0` records the float64 runs");
    return findings.finish("no float64 runs");
  }
  const FreeRun run(pair);
  Judge judge(pair, run, findings, decided);
  judge.all();
  if (judge.kept() == 0) {
    findings.inconclusive(at::kReduced, {}, -1, "the float64 runs share no step with recorded gradients");
  } else if (judge.kept() < static_cast<std::int64_t>(run.steps().size())) {
    findings.inconclusive(at::kReduced, {}, -1,
                          "gradients of " + std::to_string(judge.kept()) + " of the " + std::to_string(run.steps().size()) +
                              " float64 steps were kept; `--record full` keeps all");
  }
  std::string text = count_of(judge.kept(), "float64 step") + ", " + count_of(static_cast<std::int64_t>(pair.reruns.size()), "re-execution") +
                     judge.closest().text();
  if (judge.weak() > 0) text += "; " + count_of(static_cast<std::int64_t>(judge.weak()), "tensor") + " left to tier S";
  return findings.finish(text);
}

}  // namespace samerun::verify
