#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "samerun/core/event.h"
#include "samerun/profiler/phases.h"

/// Figures of speed, from the rows of a record. Definitions: CATEGORIES.md.
namespace samerun::profiler {

struct RankPhase {
  int rank = 0;
  Phase phase;
};

/// What a record says of a run's speed.
struct ProfiledRun {
  int ranks = 1;
  std::vector<RankPhase> phases;                 ///< In any order.
  std::map<std::int64_t, std::int64_t> samples;  ///< By step: real samples over all ranks, as counted.
};

struct Spread {
  double p5 = 0, median = 0, p95 = 0;
};

using PartsMs = std::array<double, kParts.size()>;

/// The steps of one run, less the first ones.
struct StepProfile {
  int ranks = 1;
  std::int64_t warmup_steps = 0;                   ///< Left out at the start.
  std::vector<double> wall_ms;                     ///< By step: of the rank that took longest.
  Spread step_ms;                                  ///< Of wall_ms.
  std::array<Spread, kParts.size()> slowest_ms{};  ///< By part: of the rank that spent most on it in a step.
  double mean_ms = 0;                              ///< Over steps and ranks.
  PartsMs mean_parts_ms{};                         ///< Likewise; they sum to mean_ms.
  double load_balance = 1;                         ///< Mean over largest of the ranks' compute; 1: all have equally much.
  double samples_per_step = 0, samples_per_s = 0;  ///< Median; and that over the median step time.
};

/// Steps of which every rank has a row, less a warm-up: the first 5, but no more than a quarter. Empty where there is none.
std::optional<StepProfile> profile_steps(const ProfiledRun& run);

/// How the work grew with the ranks, from the samples that a step was counted to have.
enum class Regime {
  kStrong,  ///< As many samples a step.
  kWeak,    ///< As many samples a step and rank.
  kNeither,
};
std::string_view to_string(Regime regime);  ///< "strong", "weak", "neither strong nor weak".

/// A run of more ranks against one of fewer.
struct Scaling {
  Regime regime = Regime::kNeither;
  StepProfile reference, candidate;
  double efficiency = 0;                           ///< Samples a second and rank, candidate over reference; 1: ideal.
  double efficiency_low = 0, efficiency_high = 0;  ///< 95 % interval, from resampled steps.
  double ideal_ms = 0;                             ///< What the candidate's mean step would take at an efficiency of 1.
  PartsMs lost_ms{};                               ///< By part; they sum to candidate.mean_ms - ideal_ms.
};

/// Empty where a run has no steps to look at or counted no samples.
std::optional<Scaling> compare_speed(const ProfiledRun& reference, const ProfiledRun& candidate);

}  // namespace samerun::profiler
