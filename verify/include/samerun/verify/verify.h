#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace samerun::recorder {
class Reader;
}

namespace samerun::verify {

/// Refused is decided before any check; then different > inconclusive > same.
enum class Verdict { kSame, kDifferent, kInconclusive, kRefused };
std::string_view to_string(Verdict verdict);  ///< "same", "different", "inconclusive", "refused".
int exit_code(Verdict verdict);               ///< 0 same, 1 different, 4 inconclusive or refused.

/// One finding or one line of what was shown.
struct Evidence {
  std::string check;  ///< "sharding", "gate0", "locked", "gradient", "settings", "replicas", "coverage", ...
  Verdict word = Verdict::kSame;
  std::string stage;   ///< First stage that differs: "sample ids", "weights", "local gradient", "reduced gradient", "norm", "clipped gradient",
                       ///< "update", "state", ...
  std::string tensor;  ///< Empty when all or none.
  std::int64_t step = -1;
  int rank = -1;
  double value = 0;  ///< Measured, in the unit of the limit.
  double limit = 0;
  std::string text;  ///< One sentence for a reader.
};

struct CheckResult {
  std::string name;
  Verdict word = Verdict::kSame;
  std::string summary;             ///< One line: what was compared, how much of it, the closest call.
  std::vector<Evidence> evidence;  ///< Worst and earliest first; empty when nothing was found.
};

/// How much of the pair was decided. A tensor is decided when the free-running float64 runs could tell a fault from
/// rounding in it, or when every micro-batch of a locked step was compared bit for bit.
struct Coverage {
  std::int64_t tensors = 0, decided = 0;
  std::int64_t steps = 0;              ///< Optimizer steps that both runs recorded.
  std::int64_t shadow_steps = 0;       ///< Steps of the float64 pair whose gradients were compared.
  std::int64_t locked_steps = 0;       ///< Steps judged locked to the candidate's own state (tier S).
  std::vector<std::string> undecided;  ///< Names of the tensors that were not decided, and why.
};

/// How far one tensor was from the reference's over the steps, beside what was allowed. Of neighbouring steps of a long
/// run the one nearest its limit stands for the others.
struct TensorCurve {
  std::string tensor, stage;
  std::string arm;                         ///< "native" or "float64" (free-running), "locked" or "locked64" (tier S).
  std::vector<std::int64_t> steps;         ///< At most 200, ascending.
  std::vector<double> value, limit, norm;  ///< One a step: ||D - R||, its limit (64 times the noise), ||R||.
};

struct Report {
  Verdict verdict = Verdict::kInconclusive;
  std::string summary;  ///< The verdict in one sentence, naming the tier that it rests on.
  std::int64_t candidate = 0, reference = 0;
  std::string group_id;
  std::vector<CheckResult> checks;
  std::vector<std::string> not_exercised;  ///< What the pair did not put to the test.
  double coverage_tensors = 0;             ///< Share of trained tensors that were decided, 0 to 1.
  Coverage coverage;
  std::optional<Evidence> first;    ///< The earliest step's first stage that differs; later findings may be its consequences.
  std::vector<TensorCurve> curves;  ///< By arm and stage, the nearest to its limit first; at most 64 an arm and stage.
  std::int64_t curves_left_out = 0;
};

struct Options {
  bool strict = false;  ///< "Not exercised" leads to `refused`.
};

/// Compares the candidate with the reference on the record alone; runs no program, writes nothing. Their group's float64
/// shadows and re-executions are found by role. Throws kConfig when a run does not exist; kStorage, kCorruption.
Report verify(const recorder::Reader& reader, std::int64_t candidate, std::int64_t reference, const Options& options = {});

/// Judges a resume check on the record alone: the runs "straight", "saving-K", "resumed-K" and "cold-K" of a group. The
/// report's candidate is the resumed run, its reference the straight one. Throws kConfig where the group has no straight run;
/// kStorage, kCorruption.
Report verify_resume(const recorder::Reader& reader, const std::string& group_id);

inline constexpr std::size_t kReportLines = 40;
/// At most `most_lines` lines of 80 columns. No control characters unless `color`.
std::string to_text(const Report& report, bool color = false, std::size_t most_lines = kReportLines);
std::string to_json(const Report& report);

}  // namespace samerun::verify
