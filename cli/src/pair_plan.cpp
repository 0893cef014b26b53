#include "pair_plan.h"

#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"

namespace samerun::cli {
namespace {

/// Steps whose states and gradients the candidate saves and the reference measures itself against.
constexpr const char* kLocked = "0";
/// Fewest optimizer steps of a float64 run, unless the program ends before.
constexpr const char* kShadowLeast = "20";

/// What the shell has of these would be in some runs and not in others.
std::vector<std::string> decided_variables() {
  return {env::kPrecision,  env::kReplayWorld, env::kReference, env::kVariation, env::kLockedSteps,   env::kCaptureTo,
          env::kLockedOf,   env::kLockedFrom,  env::kStopAfter, env::kShadow,    env::kCheckpointDir, env::kCheckpoints,
          env::kResumeFrom, env::kSaveAt,      env::kKillAt,    env::kPoison,    env::kLoadOnly};
}

}  // namespace

LaunchSpec comparison_run(const std::vector<std::string>& command, const RunSettings& settings, const std::string& group, const std::string& role) {
  LaunchSpec spec;
  spec.command = command;
  spec.threads = static_cast<int>(settings.threads.value());
  spec.group_id = group;
  spec.role = role;
  spec.to_log = true;
  spec.unset = decided_variables();
  spec.env = settings.environment();
  spec.mpi = settings.backend.mpi;
  spec.env[env::kCheckpoints] = "off";
  return spec;
}

std::map<std::string, std::string> parse_variables(const std::vector<std::string>& texts, const char* flag) {
  std::map<std::string, std::string> variables;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) throw Error(ErrorCode::kConfig, std::string(flag) + " wants NAME=VALUE, not " + text);
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

PairPlan::PairPlan(const PairOptions& options, const RunSettings& settings, std::string group, std::filesystem::path captures)
    : options_(options),
      settings_(settings),
      group_(std::move(group)),
      captures_(std::move(captures)),
      candidate_env_(parse_variables(options.candidate_env, "--candidate-env")),
      reference_env_(parse_variables(options.reference_env, "--reference-env")) {}

LaunchSpec PairPlan::base(const std::string& role, Precision precision) const {
  LaunchSpec spec = comparison_run(options_.command, settings_, group_, role);
  if (precision == Precision::kFloat64) {
    spec.env[env::kPrecision] = "float64";
    spec.env[env::kShadow] = std::string(kShadowLeast) + ":" + std::to_string(options_.shadow_steps);
  } else if (options_.steps) {
    spec.env[env::kStopAfter] = std::to_string(*options_.steps);
  }
  return spec;
}

std::filesystem::path PairPlan::capture_folder(Precision precision) const {
  return captures_ / (precision == Precision::kFloat64 ? "candidate64" : "candidate");
}

LaunchSpec PairPlan::candidate(Precision precision) const {
  LaunchSpec spec = base(precision == Precision::kFloat64 ? "candidate64" : "candidate", precision);
  spec.world_size = static_cast<int>(settings_.ranks.value());
  spec.env[env::kLockedSteps] = kLocked;
  spec.env[env::kCaptureTo] = capture_folder(precision).string();
  for (const auto& [name, value] : candidate_env_) spec.env[name] = value;
  return spec;
}

LaunchSpec PairPlan::reference(Precision precision, std::int64_t candidate_run) const {
  LaunchSpec spec = base(precision == Precision::kFloat64 ? "reference64" : "reference", precision);
  spec.env[env::kReplayWorld] = std::to_string(settings_.ranks.value());
  spec.env[env::kReference] = options_.reference;
  if (candidate_run != 0) {
    spec.env[env::kLockedSteps] = kLocked;
    spec.env[env::kLockedOf] = std::to_string(candidate_run);
    spec.env[env::kLockedFrom] = capture_folder(precision).string();
  }
  for (const auto& [name, value] : reference_env_) spec.env[name] = value;
  return spec;
}

LaunchSpec PairPlan::rerun(int variation) const {
  LaunchSpec spec = reference(Precision::kFloat64, 0);
  spec.role = "rerun64-" + std::to_string(variation);
  spec.env[env::kVariation] = std::to_string(variation);
  return spec;
}

}  // namespace samerun::cli
