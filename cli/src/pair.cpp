#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <random>

#include "commands.h"
#include "host.h"
#include "judge.h"
#include "launcher.h"
#include "pair_plan.h"
#include "program.h"
#include "run_settings.h"
#include "samerun/core/clock.h"
#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

using Precision = PairPlan::Precision;

constexpr int kSteps = 4 + kReruns + 1;  ///< Runs, and the verdict.

std::string new_group() {
  std::random_device random;
  char text[9];
  std::snprintf(text, sizeof text, "%08x", random());
  return text;
}

/// The pair's captured tensors: large, and of no use once the distances are rows.
class Captures {
 public:
  Captures(std::filesystem::path folder, bool keep) : folder_(std::move(folder)), keep_(keep) {
    std::error_code error;
    for (const char* role : {"candidate", "candidate64"}) {
      std::filesystem::create_directories(folder_ / role, error);
      if (error) throw Error(ErrorCode::kStorage, "cannot make " + (folder_ / role).string() + ": " + error.message());
    }
  }
  ~Captures() {
    std::error_code ignored;
    if (keep_) return;
    std::filesystem::remove_all(folder_, ignored);
    std::filesystem::remove(folder_.parent_path(), ignored);  // If no other pair keeps some.
  }
  Captures(const Captures&) = delete;
  Captures& operator=(const Captures&) = delete;

 private:
  std::filesystem::path folder_;
  bool keep_;
};

class PairSession {
 public:
  PairSession(const PairOptions& options, const RunSettings& settings)
      : options_(options),
        settings_(settings),
        plan_(options, settings, group_, capture_folder_),
        store_(settings.record_dir.value()),
        captures_(capture_folder_, options.keep_captures) {}

  int run();

 private:
  /// All of the pair's runs; an exit code when there is nothing to judge.
  std::optional<int> run_all();
  std::optional<int> run_shadows(Launcher& launcher);
  std::optional<int> run_reruns(Launcher& launcher);
  std::vector<LaunchResult> step(Launcher& launcher, const std::vector<LaunchSpec>& specs);
  std::vector<LaunchResult> run_specs(Launcher& launcher, const std::vector<LaunchSpec>& specs);
  void begin_line(const std::string& text);
  void end_line(double seconds, bool failed);
  static void report_failure(const LaunchResult& result, const std::string& role, const char* consequence);

  const PairOptions& options_;
  const RunSettings& settings_;
  std::string group_ = new_group();
  std::filesystem::path capture_folder_ = std::filesystem::path(settings_.record_dir.value()) / "captures" / group_;
  PairPlan plan_;  // First of these: it checks the flags before a record is made.
  recorder::Store store_;
  Captures captures_;
  int done_ = 0;
  std::int64_t candidate_ = 0, reference_ = 0;
};

void PairSession::begin_line(const std::string& text) {
  if (!options_.quiet) std::fprintf(stderr, "%s ... ", text.c_str());
}

void PairSession::end_line(double seconds, bool failed) {
  if (!options_.quiet) std::fprintf(stderr, "%.1f s%s\n", seconds, failed ? ", failed" : "");
}

void PairSession::report_failure(const LaunchResult& result, const std::string& role, const char* consequence) {
  std::fprintf(stderr, "samerun: %s (run %lld) failed: %s\nits output: %s\n%s", role.c_str(), static_cast<long long>(result.run),
               result.failure_text().c_str(), result.log.c_str(), consequence);
}

/// "rerun64-1 and rerun64-2, float64, 1 rank each".
std::string describe(const std::vector<LaunchSpec>& specs) {
  const LaunchSpec& first = specs.front();
  const bool wide = first.role.find("64") != std::string::npos, several = specs.size() > 1;
  const std::string roles = several ? first.role + " and " + specs.back().role : first.role;
  const std::string ranks = std::to_string(first.world_size) + (first.world_size == 1 ? " rank" : " ranks") + (several ? " each" : "");
  return roles + ", " + (wide ? "float64" : "own precision") + ", " + ranks;
}

/// The line of a step ends before an error is told.
std::vector<LaunchResult> PairSession::run_specs(Launcher& launcher, const std::vector<LaunchSpec>& specs) {
  try {
    return launcher.run(specs);
  } catch (const Error&) {
    if (!options_.quiet) std::fputs("failed\n", stderr);
    throw;
  }
}

std::vector<LaunchResult> PairSession::step(Launcher& launcher, const std::vector<LaunchSpec>& specs) {
  const int first = done_ + 1;
  done_ += static_cast<int>(specs.size());
  const std::string range = specs.size() == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(done_);
  begin_line("[" + range + "/" + std::to_string(kSteps) + "] " + describe(specs));
  const std::vector<LaunchResult> results = run_specs(launcher, specs);
  double seconds = 0;
  bool failed = false;
  for (const LaunchResult& result : results) {
    seconds = std::max(seconds, result.wall_seconds);
    failed |= !result.good();
  }
  end_line(seconds, failed);
  return results;
}

constexpr const char* kShadowFailed = "what rests on this run will be inconclusive\n";

bool told_to_stop(const LaunchResult& result) {
  return result.exit_code > 128;
}

std::optional<int> PairSession::run_reruns(Launcher& launcher) {
  // Two at a time only where each has a core of its own; their results do not depend on it.
  const int beside = settings_.threads.value() == 1 && usable_cores() >= 2 ? 2 : 1;
  for (int variation = 1; variation <= kReruns; variation += beside) {
    std::vector<LaunchSpec> specs;
    for (int i = 0; i < beside; ++i) specs.push_back(plan_.rerun(variation + i));
    const std::vector<LaunchResult> results = step(launcher, specs);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i].good()) report_failure(results[i], specs[i].role, kShadowFailed);
      if (told_to_stop(results[i])) return results[i].exit_code;
    }
  }
  return std::nullopt;
}

std::optional<int> PairSession::run_shadows(Launcher& launcher) {
  const LaunchResult candidate = step(launcher, {plan_.candidate(Precision::kFloat64)}).front();
  if (told_to_stop(candidate)) return candidate.exit_code;
  if (!candidate.good()) {
    report_failure(candidate, "candidate64", kShadowFailed);
    return std::nullopt;  // Nothing to compare the other float64 runs with.
  }
  const LaunchResult reference = step(launcher, {plan_.reference(Precision::kFloat64, candidate.run)}).front();
  if (told_to_stop(reference)) return reference.exit_code;
  if (!reference.good()) {
    report_failure(reference, "reference64", kShadowFailed);
    return std::nullopt;
  }
  return run_reruns(launcher);
}

std::optional<int> PairSession::run_all() {
  Launcher launcher(&store_);
  const LaunchResult candidate = step(launcher, {plan_.candidate(Precision::kNative)}).front();
  if (!candidate.good()) {
    report_failure(candidate, "candidate", "");
    return candidate.exit_code;
  }
  const LaunchResult reference = step(launcher, {plan_.reference(Precision::kNative, candidate.run)}).front();
  if (!reference.good()) {
    report_failure(reference, "reference", "");
    return reference.exit_code;
  }
  candidate_ = candidate.run;
  reference_ = reference.run;
  return run_shadows(launcher);
}

int PairSession::run() {
  const std::int64_t begin_ns = monotonic_now_ns();
  if (!options_.quiet) {
    std::fprintf(stderr, "samerun: pair %s: %s, record %s\n", group_.c_str(), settings_.text().c_str(),
                 with_origin(settings_.record_dir.value(), settings_.record_dir.origin()).c_str());
  }
  if (const std::optional<int> code = run_all()) return *code;
  if (!options_.quiet) std::fprintf(stderr, "[%d/%d] verdict\n", kSteps, kSteps);
  const int code = judge({store_.folder(), candidate_, reference_, options_.strict, options_.json}, &store_);
  if (!options_.quiet)
    std::fprintf(stderr, "samerun: pair %s took %.1f s\n", group_.c_str(), static_cast<double>(monotonic_now_ns() - begin_ns) * 1e-9);
  return code;
}

}  // namespace

int run_pair(const PairOptions& options) {
  const RunSettings settings = resolve_run(options, 2);
  resolve_program(options.command.front());  // Before a record is made.
  return PairSession(options, settings).run();
}

}  // namespace samerun::cli
