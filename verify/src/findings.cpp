#include "findings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

#include "numeric.h"

namespace samerun::verify {
namespace {

constexpr std::size_t kMostLines = 200;

// Stages in the order of a step. A hyperparameter has a stage of its own name, and acts where the settings do.
constexpr std::array<std::string_view, 16> kOrder = {at::kLeaf,     at::kInitial, at::kIds,   at::kSteps,   at::kInputs, at::kStream,
                                                     at::kWeights,  at::kLoss,    at::kLocal, at::kReduced, at::kNorm,   at::kClipped,
                                                     at::kSettings, at::kUpdate,  at::kState, at::kMetric};

// A change of state between two steps is filed under the later step, and comes before all that this step does.
int stage_order(const Evidence& evidence) {
  if (evidence.check == "gate0" && evidence.stage == at::kState) return -1;
  const auto* found = std::find(kOrder.begin(), kOrder.end(), evidence.stage);
  if (found == kOrder.end()) found = std::find(kOrder.begin(), kOrder.end(), at::kSettings);
  return static_cast<int>(found - kOrder.begin());
}

// Evaluation batches carry no step; nothing that happens in training follows from them.
std::int64_t step_order(const Evidence& evidence) {
  const bool of_batch = evidence.stage == at::kIds || evidence.stage == at::kInputs || evidence.stage == at::kStream;
  return evidence.step < 0 && of_batch ? std::numeric_limits<std::int64_t>::max() : evidence.step;
}

double excess(const Evidence& evidence) {
  if (std::isnan(evidence.value)) return std::numeric_limits<double>::infinity();
  return evidence.limit > 0 ? evidence.value / evidence.limit : std::abs(evidence.value);
}

int word_order(Verdict word) {
  switch (word) {
    case Verdict::kRefused:
      return 0;
    case Verdict::kDifferent:
      return 1;
    case Verdict::kInconclusive:
      return 2;
    case Verdict::kSame:
      break;
  }
  return 3;
}

auto order_key(const Evidence& e) {
  return std::make_tuple(word_order(e.word), step_order(e), stage_order(e), -excess(e));
}

}  // namespace

bool earlier(const Evidence& a, const Evidence& b) {
  const auto key_a = order_key(a), key_b = order_key(b);
  if (key_a != key_b) return key_a < key_b;
  return std::tie(a.rank, a.tensor, a.text) < std::tie(b.rank, b.tensor, b.text);
}

std::string place_of(const Evidence& evidence) {
  const std::string step = evidence.step >= 0 ? "at step " + std::to_string(evidence.step) + ", " : "";
  return step + evidence.stage;
}

std::optional<Evidence> first_of(const std::vector<CheckResult>& checks, Verdict word) {
  std::optional<Evidence> first;
  for (const auto& check : checks) {
    for (const auto& evidence : check.evidence) {
      if (evidence.word == word && (!first || earlier(evidence, *first))) first = evidence;
    }
  }
  return first;
}

void Closest::see(double value, double limit, const std::string& place) {
  if (limit <= 0 || value / limit <= share) return;
  share = value / limit;
  where = place;
}

std::string Closest::text() const {
  return share > 0 ? "; closest " + number(share) + " of limit (" + where + ")" : "";
}

void Findings::add(Evidence evidence, std::string_view kind) {
  evidence.check = check_;
  if (evidence.word == Verdict::kDifferent) ++different_;
  std::string key = std::to_string(word_order(evidence.word));
  key.append("\n")
      .append(evidence.stage)
      .append("\n")
      .append(evidence.tensor)
      .append("\n")
      .append(std::to_string(evidence.rank))
      .append("\n")
      .append(kind);
  const auto [line, is_new] = lines_.try_emplace(std::move(key), Line{evidence, 0});
  if (is_new) return;
  ++line->second.others;
  if (step_order(evidence) < step_order(line->second.evidence)) line->second.evidence = std::move(evidence);
}

void Findings::different(std::string stage, std::string tensor, std::int64_t step, int rank, std::string text, double value, double limit) {
  add({{}, Verdict::kDifferent, std::move(stage), std::move(tensor), step, rank, value, limit, std::move(text)});
}

void Findings::inconclusive(std::string stage, std::string tensor, std::int64_t step, std::string text) {
  add({{}, Verdict::kInconclusive, std::move(stage), std::move(tensor), step, -1, 0, 0, std::move(text)});
}

CheckResult Findings::finish(std::string summary) const {
  CheckResult result{check_, Verdict::kSame, std::move(summary), {}};
  for (const auto& [key, line] : lines_) {
    Evidence evidence = line.evidence;
    if (line.others > 0) evidence.text += " (and " + std::to_string(line.others) + " more like it)";
    result.evidence.push_back(std::move(evidence));
  }
  std::sort(result.evidence.begin(), result.evidence.end(), earlier);
  if (!result.evidence.empty()) result.word = result.evidence.front().word;
  if (result.evidence.size() > kMostLines) {
    const std::size_t cut = result.evidence.size() - kMostLines + 1;
    result.evidence.resize(kMostLines);
    result.evidence.back() = {
        check_, result.evidence.back().word, {}, {}, -1, -1, 0, 0, "and " + std::to_string(cut) + " more findings of this check"};
  }
  return result;
}

}  // namespace samerun::verify
