#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launcher.h"
#include "options.h"
#include "run_settings.h"

namespace samerun::cli {

/// Number of legal re-executions of the reference by which rounding is measured.
inline constexpr int kReruns = 4;

/// What the runs of a comparison have in common: their command, group and settings, output to a log, no checkpoints of the program's
/// own (they would write over one another's), and nothing of the shell's variables that tell one run of several its part.
LaunchSpec comparison_run(const std::vector<std::string>& command, const RunSettings& settings, const std::string& group, const std::string& role);
/// Throws kConfig for a malformed NAME=VALUE of `flag`.
std::map<std::string, std::string> parse_variables(const std::vector<std::string>& texts, const char* flag);

/// What each run of a pair is started with. The reference always replays the candidate's plan on one rank; all runs
/// have the same threads per rank, which change results bitwise.
class PairPlan {
 public:
  /// Throws kConfig for a malformed NAME=VALUE. `captures`: folder of the pair's captured tensors.
  PairPlan(const PairOptions& options, const RunSettings& settings, std::string group, std::filesystem::path captures);

  enum class Precision { kNative, kFloat64 };

  LaunchSpec candidate(Precision precision) const;
  /// `candidate_run`: the run of the same precision whose locked steps are measured; 0 for none.
  LaunchSpec reference(Precision precision, std::int64_t candidate_run) const;
  /// `variation`: 1 to kReruns.
  LaunchSpec rerun(int variation) const;

 private:
  LaunchSpec base(const std::string& role, Precision precision) const;
  std::filesystem::path capture_folder(Precision precision) const;

  PairOptions options_;
  RunSettings settings_;
  std::string group_;
  std::filesystem::path captures_;
  std::map<std::string, std::string> candidate_env_, reference_env_;
};

}  // namespace samerun::cli
