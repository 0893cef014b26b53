#include "samerun/profiler/efficiency.h"

#include <algorithm>
#include <cmath>

#include "samerun/core/stream.h"

namespace samerun::profiler {
namespace {

constexpr std::int64_t kWarmupSteps = 5;
constexpr std::uint64_t kResampling = 0x5ca1e;  ///< Fixed: the same record always gives the same interval.

double ms(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

/// The value below which `share` of the values lie, between neighbours on a line. Reorders them.
double quantile(std::vector<double>& values, double share) {
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = values.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(values.begin(), low, values.end());
  const double fraction = at - std::floor(at);
  return fraction == 0 ? *low : *low + fraction * (*std::min_element(low + 1, values.end()) - *low);
}

Spread spread_of(std::vector<double> values) {
  return {quantile(values, 0.05), quantile(values, 0.5), quantile(values, 0.95)};
}

/// By step, the rows of all ranks; steps that lack one are left out.
std::map<std::int64_t, std::vector<RankPhase>> whole_steps(const ProfiledRun& run) {
  std::map<std::int64_t, std::vector<RankPhase>> steps;
  for (const auto& row : run.phases) steps[row.phase.step].push_back(row);
  std::erase_if(steps, [&](const auto& step) { return step.second.size() != static_cast<std::size_t>(run.ranks); });
  return steps;
}

double slowest_ms(const std::vector<RankPhase>& rows, std::int64_t Phase::*part) {
  std::int64_t most = 0;
  for (const auto& row : rows) most = std::max(most, row.phase.*part);
  return ms(most);
}

double load_balance(const std::map<int, double>& compute_of_rank) {
  double sum = 0, most = 0;
  for (const auto& [rank, compute] : compute_of_rank) {
    sum += compute;
    most = std::max(most, compute);
  }
  return most > 0 ? sum / static_cast<double>(compute_of_rank.size()) / most : 1;
}

double median_samples(const ProfiledRun& run, std::int64_t first_step) {
  std::vector<double> samples;
  for (auto at = run.samples.lower_bound(first_step); at != run.samples.end(); ++at) samples.push_back(static_cast<double>(at->second));
  return samples.empty() ? 0 : quantile(samples, 0.5);
}

/// A median of the values drawn again, with replacement and in stretches: neighbours in time are alike, and single draws would
/// make the interval too narrow. Circular; a stretch is the cube root of the number of values.
double redrawn_median(const std::vector<double>& values, std::uint64_t stream, std::vector<double>& drawn) {
  const auto count = values.size();
  const auto stretch = static_cast<std::size_t>(std::ceil(std::cbrt(static_cast<double>(count))));
  drawn.clear();
  for (std::uint64_t draw = 0; drawn.size() < count; ++draw) {
    const std::size_t from = counter_random(stream, draw) % count;
    for (std::size_t i = 0; i < stretch && drawn.size() < count; ++i) drawn.push_back(values[(from + i) % count]);
  }
  return quantile(drawn, 0.5);
}

/// 95 % interval of the ratio of medians, `over` to `under`.
std::pair<double, double> ratio_interval(const std::vector<double>& over, const std::vector<double>& under) {
  const auto resamples = std::clamp<std::size_t>(20'000'000 / (over.size() + under.size()), 100, 1000);
  std::vector<double> ratios, drawn;
  for (std::uint64_t i = 0; i < resamples; ++i) {
    const double numerator = redrawn_median(over, counter_random(kResampling, 2 * i), drawn);
    ratios.push_back(numerator / redrawn_median(under, counter_random(kResampling, 2 * i + 1), drawn));
  }
  return {quantile(ratios, 0.025), quantile(ratios, 0.975)};
}

Regime regime_of(const StepProfile& reference, const StepProfile& candidate) {
  if (candidate.samples_per_step == reference.samples_per_step) return Regime::kStrong;
  if (candidate.samples_per_step * reference.ranks == reference.samples_per_step * candidate.ranks) return Regime::kWeak;
  return Regime::kNeither;
}

}  // namespace

std::string_view to_string(Regime regime) {
  switch (regime) {
    case Regime::kStrong:
      return "strong";
    case Regime::kWeak:
      return "weak";
    case Regime::kNeither:
      break;
  }
  return "neither strong nor weak";
}

std::optional<StepProfile> profile_steps(const ProfiledRun& run) {
  auto steps = whole_steps(run);
  if (steps.empty()) return std::nullopt;
  StepProfile profile;
  profile.ranks = run.ranks;
  profile.warmup_steps = std::min(kWarmupSteps, static_cast<std::int64_t>(steps.size()) / 4);
  steps.erase(steps.begin(), std::next(steps.begin(), profile.warmup_steps));
  std::array<std::vector<double>, kParts.size()> slowest;
  std::map<int, double> compute_of_rank;
  const double rows = static_cast<double>(steps.size()) * run.ranks;
  for (const auto& [step, ranks] : steps) {
    profile.wall_ms.push_back(slowest_ms(ranks, &Phase::wall_ns));
    for (std::size_t part = 0; part < kParts.size(); ++part) slowest[part].push_back(slowest_ms(ranks, kParts[part].ns));
    for (const auto& row : ranks) {
      profile.mean_ms += ms(row.phase.wall_ns) / rows;
      for (std::size_t part = 0; part < kParts.size(); ++part) profile.mean_parts_ms[part] += ms(row.phase.*kParts[part].ns) / rows;
      compute_of_rank[row.rank] += ms(row.phase.compute_ns);
    }
  }
  profile.step_ms = spread_of(profile.wall_ms);
  for (std::size_t part = 0; part < kParts.size(); ++part) profile.slowest_ms[part] = spread_of(std::move(slowest[part]));
  profile.load_balance = load_balance(compute_of_rank);
  profile.samples_per_step = median_samples(run, steps.begin()->first);
  if (profile.step_ms.median > 0) profile.samples_per_s = profile.samples_per_step / profile.step_ms.median * 1e3;
  return profile;
}

std::optional<Scaling> compare_speed(const ProfiledRun& reference, const ProfiledRun& candidate) {
  const auto base = profile_steps(reference), other = profile_steps(candidate);
  if (!base || !other || base->samples_per_s <= 0 || other->samples_per_s <= 0) return std::nullopt;
  Scaling scaling;
  scaling.reference = *base;
  scaling.candidate = *other;
  scaling.regime = regime_of(*base, *other);
  // At an efficiency of 1, a sample takes a rank as long as it took in the reference.
  const double share = other->samples_per_step / base->samples_per_step * base->ranks / other->ranks;
  scaling.efficiency = share * base->step_ms.median / other->step_ms.median;
  const auto [low, high] = ratio_interval(base->wall_ms, other->wall_ms);
  scaling.efficiency_low = share * low;
  scaling.efficiency_high = share * high;
  scaling.ideal_ms = share * base->mean_ms;
  for (std::size_t part = 0; part < kParts.size(); ++part) scaling.lost_ms[part] = other->mean_parts_ms[part] - share * base->mean_parts_ms[part];
  return scaling;
}

}  // namespace samerun::profiler
