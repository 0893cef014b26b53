#include "samerun/verify/verify.h"

#include <algorithm>

#include "check.h"
#include "findings.h"
#include "numeric.h"

namespace samerun::verify {
namespace {

Verdict worst_word(const std::vector<CheckResult>& checks) {
  const auto any = [&checks](Verdict word) {
    return std::any_of(checks.begin(), checks.end(), [word](const CheckResult& c) { return c.word == word; });
  };
  if (any(Verdict::kRefused)) return Verdict::kRefused;
  if (any(Verdict::kDifferent)) return Verdict::kDifferent;
  return any(Verdict::kInconclusive) ? Verdict::kInconclusive : Verdict::kSame;
}

std::string runs_in_words(const PairRecord& pair, const char* verb) {
  const auto ranks = [](const RunData& run) { return "the " + std::to_string(run.world()) + "-rank run"; };
  return ranks(pair.native.candidate) + " " + verb + " the experiment of " + ranks(pair.native.reference);
}

std::string basis(const Report& report, const PairRecord& pair, const Decided& decided) {
  std::string text = "(";
  if (pair.whole_reference) {
    text += "reference on whole batches, ";
  } else if (!decided.locked_steps.empty()) {
    text += "tier S at step " + std::to_string(*decided.locked_steps.begin()) + ", ";
  }
  if (report.coverage.shadow_steps > 0) text += "float64 free-running over " + count_of(report.coverage.shadow_steps, "step") + ", ";
  return text + std::to_string(report.coverage.decided) + " of " + count_of(report.coverage.tensors, "tensor") + ")";
}

void conclude(Report& report, const PairRecord& pair, const Decided& decided) {
  report.verdict = worst_word(report.checks);
  const std::string word(to_string(report.verdict));
  if (report.verdict == Verdict::kSame) {
    report.summary = word + ": " + runs_in_words(pair, "is") + " " + basis(report, pair, decided);
    return;
  }
  const auto first = first_of(report.checks, report.verdict);
  if (report.verdict == Verdict::kDifferent) {
    report.first = first;
    report.summary = word + ": " + runs_in_words(pair, "is not") + "; first, " + place_of(*first) + ": " + first->text;
  } else if (report.verdict == Verdict::kInconclusive) {
    report.summary = word + ": no difference was found, but " + first->text;
  } else {
    report.summary = word + ": " + first->text;
  }
}

// With --strict a pair that left something out is not good enough, unless it has shown a difference already.
void apply_strict(Report& report) {
  if (report.not_exercised.empty() || report.verdict == Verdict::kDifferent) return;
  CheckResult strict{
      "exercised", Verdict::kRefused, count_of(static_cast<std::int64_t>(report.not_exercised.size()), "thing") + " not exercised", {}};
  for (const auto& text : report.not_exercised) strict.evidence.push_back({strict.name, Verdict::kRefused, {}, {}, -1, -1, 0, 0, text});
  report.checks.push_back(std::move(strict));
  report.verdict = Verdict::kRefused;
  report.summary = "refused: --strict, and not exercised: " + report.not_exercised.front();
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSame:
      return "same";
    case Verdict::kDifferent:
      return "different";
    case Verdict::kInconclusive:
      return "inconclusive";
    case Verdict::kRefused:
      break;
  }
  return "refused";
}

int exit_code(Verdict verdict) {
  if (verdict == Verdict::kSame) return 0;
  return verdict == Verdict::kDifferent ? 1 : 4;
}

Report verify(const recorder::Reader& reader, std::int64_t candidate, std::int64_t reference, const Options& options) {
  const PairRecord pair = load_pair(reader, candidate, reference);
  Report report;
  report.candidate = candidate;
  report.reference = reference;
  report.group_id = pair.native.candidate.run.group_id;
  Decided decided;
  report.checks.push_back(check_comparable(pair));
  if (report.checks.front().word != Verdict::kRefused) {
    report.checks.push_back(check_sharding(pair));
    report.checks.push_back(check_settings(pair, decided));
    report.checks.push_back(check_gate0(pair));
    report.checks.push_back(check_replicas(pair));
    report.checks.push_back(check_initial(pair));
    report.checks.push_back(check_locked(pair, decided));
    report.checks.push_back(check_gradient(pair, decided));
    report.checks.push_back(check_clip(pair, decided));
    report.checks.push_back(check_metrics(pair, decided));
    report.checks.push_back(check_coverage(pair, decided, report.coverage));
    report.not_exercised = not_exercised(pair);
    for (const auto& metric : decided.unjudged_metrics) report.not_exercised.push_back("metric not judged: " + metric);
  }
  report.coverage_tensors =
      report.coverage.tensors == 0 ? 0 : static_cast<double>(report.coverage.decided) / static_cast<double>(report.coverage.tensors);
  decided.curves.move_to(report);
  conclude(report, pair, decided);
  if (options.strict) apply_strict(report);
  return report;
}

}  // namespace samerun::verify
