#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>

#include "commands.h"
#include "host.h"
#include "judge.h"
#include "launcher.h"
#include "pair_plan.h"
#include "program.h"
#include "resume_check.h"
#include "run_settings.h"
#include "run_steps.h"
#include "samerun/core/clock.h"
#include "samerun/recorder/reader.h"
#include "scratch_folder.h"

namespace samerun::cli {
namespace {

using Precision = PairPlan::Precision;

constexpr int kSteps = 4 + kReruns + 1;  ///< Runs, and the verdict.

class PairSession {
 public:
  PairSession(const PairOptions& options, const RunSettings& settings)
      : options_(options),
        settings_(settings),
        plan_(options, settings, group_, capture_folder_),
        store_(settings.record_dir.value()),
        captures_(capture_folder_, options.keep_captures, {"candidate", "candidate64"}),
        steps_(kSteps, options.quiet) {}

  int run();

 private:
  /// All of the pair's runs; an exit code when there is nothing to judge.
  std::optional<int> run_all();
  std::optional<int> run_shadows(Launcher& launcher);
  std::optional<int> run_reruns(Launcher& launcher);
  std::vector<LaunchResult> step(Launcher& launcher, const std::vector<LaunchSpec>& specs);
  int check_resume();

  const PairOptions& options_;
  const RunSettings& settings_;
  std::string group_ = new_group();
  std::filesystem::path capture_folder_ = std::filesystem::path(settings_.record_dir.value()) / "captures" / group_;
  PairPlan plan_;  // First of these: it checks the flags before a record is made.
  recorder::Store store_;
  ScratchFolder captures_;  // Large, and of no use once the distances are rows.
  RunSteps steps_;
  std::int64_t candidate_ = 0, reference_ = 0;
};

/// "rerun64-1 and rerun64-2, float64, 1 rank each".
std::string describe(const std::vector<LaunchSpec>& specs) {
  const LaunchSpec& first = specs.front();
  const bool wide = first.role.find("64") != std::string::npos, several = specs.size() > 1;
  const std::string roles = several ? first.role + " and " + specs.back().role : first.role;
  const std::string ranks = std::to_string(first.world_size) + (first.world_size == 1 ? " rank" : " ranks") + (several ? " each" : "");
  return roles + ", " + (wide ? "float64" : "own precision") + ", " + ranks;
}

std::vector<LaunchResult> PairSession::step(Launcher& launcher, const std::vector<LaunchSpec>& specs) {
  return steps_.run(launcher, specs, describe(specs));
}

/// Of two exit codes: told to stop, a failed run, a difference, no verdict.
int worse(int a, int b) {
  const auto rank = [](int code) { return code > 128 ? 4 : code == 3 ? 3 : code == 1 ? 2 : code == 0 ? 0 : 1; };
  return rank(b) > rank(a) ? b : a;
}

constexpr const char* kShadowFailed = "what rests on this run will be inconclusive\n";

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

bool made_no_step(const recorder::Store& store, std::int64_t run) {
  const auto ranks = recorder::Reader(store.folder()).ranks(run);
  return !ranks.empty() && std::all_of(ranks.begin(), ranks.end(), [](const recorder::RankRow& rank) { return rank.steps == 0; });
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
  if (made_no_step(store_, candidate_)) return std::nullopt;  // The verdict refuses; more runs would not help.
  return run_shadows(launcher);
}

/// The candidate's side, killed and resumed. Its steps are those of the float64 runs, unless told otherwise.
int PairSession::check_resume() {
  ResumeCheck check{
      options_.command, settings_,      group_, parse_variables(options_.candidate_env, "--candidate-env"), options_.steps.value_or(0), {},
      options_.json,    options_.quiet, false};
  return cli::check_resume(check, store_);
}

int PairSession::run() {
  const std::int64_t begin_ns = monotonic_now_ns();
  if (!options_.quiet) {
    std::fprintf(stderr, "samerun: pair %s: %s, record %s\n", group_.c_str(), settings_.text().c_str(),
                 with_origin(settings_.record_dir.value(), settings_.record_dir.origin()).c_str());
  }
  if (const std::optional<int> code = run_all()) return *code;
  steps_.say("verdict");
  const bool array = options_.resume && options_.json;  // Two reports, one document.
  if (array) std::fputs("[\n", stdout);
  int code = judge({store_.folder(), candidate_, reference_, options_.strict, options_.json, !options_.no_report, options_.quiet}, &store_);
  if (array) std::fputs(",\n", stdout);
  if (options_.resume) code = worse(code, check_resume());
  if (array) std::fputs("]\n", stdout);
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
