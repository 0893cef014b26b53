#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "samerun/verify/verify.h"

namespace samerun::verify {

/// Stages as they stand in evidence, in the order in which a step passes through them.
namespace at {
inline constexpr const char* kLeaf = "checkpoint leaf";
inline constexpr const char* kInitial = "initial state";
inline constexpr const char* kIds = "sample ids";
inline constexpr const char* kSteps = "steps";
inline constexpr const char* kInputs = "inputs";
inline constexpr const char* kStream = "random stream";
inline constexpr const char* kWeights = "weights";  // before the loss, whose sum is weighted
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kLocal = "local gradient";
inline constexpr const char* kReduced = "reduced gradient";
inline constexpr const char* kNorm = "norm";
inline constexpr const char* kClipped = "clipped gradient";
inline constexpr const char* kSettings = "settings";
inline constexpr const char* kUpdate = "update";
inline constexpr const char* kState = "state";
inline constexpr const char* kMetric = "metric";
}  // namespace at

/// True when `a` comes before `b`: differences first, then the earlier step, the earlier stage, the larger excess.
bool earlier(const Evidence& a, const Evidence& b);

/// "at step 3, update": where a difference is, for a sentence.
std::string place_of(const Evidence& evidence);
/// The first evidence with this word over all checks.
std::optional<Evidence> first_of(const std::vector<CheckResult>& checks, Verdict word);

/// The closest that a clean comparison came to its limit: how much room is left is part of the answer.
struct Closest {
  double share = 0;  ///< Of the limit, 0 to 1.
  std::string where;

  void see(double value, double limit, const std::string& place);
  std::string text() const;  ///< "; closest 0.12 of limit (place)", or nothing.
};

/// Collects what one check finds. A fault shows in many steps: one line is kept per (word, stage, tensor, rank, kind),
/// with its earliest step and the number of the others, so the cost does not grow with the length of a run.
class Findings {
 public:
  explicit Findings(std::string check) : check_(std::move(check)) {}

  /// `kind` keeps apart findings that share stage, tensor and rank.
  void add(Evidence evidence, std::string_view kind = {});
  void different(std::string stage, std::string tensor, std::int64_t step, int rank, std::string text, double value = 0, double limit = 0);
  void inconclusive(std::string stage, std::string tensor, std::int64_t step, std::string text);
  bool any_different() const { return different_ > 0; }
  bool empty() const { return lines_.empty(); }

  /// The check's result, evidence in order; at most 200 lines, the last of which counts the rest.
  CheckResult finish(std::string summary) const;

 private:
  struct Line {
    Evidence evidence;
    std::int64_t others = 0;
  };
  std::string check_;
  std::map<std::string, Line> lines_;
  std::int64_t different_ = 0;
};

}  // namespace samerun::verify
