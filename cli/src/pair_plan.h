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

/// Variables by which one run of several is told its part. What the shell has of them must not leak in: it would be in
/// some runs and not in others.
std::vector<std::string> decided_variables();
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
