#include "speed.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "samerun/profiler/whole_run.h"
#include "table.h"

namespace samerun::cli {
namespace {

using profiler::kParts;
using Rows = std::vector<std::vector<std::string>>;

constexpr double kWorthNaming = 0.01;  ///< Of a step: what is lost to smaller parts is told as one.
constexpr std::size_t kColumns = 80, kIndent = 12, kMostLines = 6;

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}
std::string ms_text(double ms) {
  return format(ms < 9.995 ? "%.2f" : ms < 99.95 ? "%.1f" : "%.0f", ms);
}
std::string percent_text(double share) {
  return format("%.1f %%", 100 * share);
}
std::string ranks_text(int ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

profiler::ProfiledRun profiled(const recorder::Reader& reader, const recorder::RunRow& run) {
  profiler::ProfiledRun result;
  result.ranks = run.world_size;
  for (const auto& row : reader.phases(run.id)) result.phases.push_back({row.rank, row.phase});
  for (const auto& row : reader.steps(run.id)) {
    if (row.rank == 0) result.samples[row.step.step] = row.step.samples_counted;  // counted over all ranks
  }
  return result;
}

std::vector<std::string> step_row(const char* name, const profiler::Spread& ms, double share) {
  return {"", name, ms_text(ms.median), ms_text(ms.p5), ms_text(ms.p95), percent_text(share)};
}

std::string steps_text(const profiler::StepProfile& steps) {
  Rows rows{{"", "part", "median ms", "p5", "p95", "share of mean"}};
  for (std::size_t part = 0; part < kParts.size(); ++part)
    rows.push_back(step_row(kParts[part].name, steps.slowest_ms[part], steps.mean_ms > 0 ? steps.mean_parts_ms[part] / steps.mean_ms : 0));
  rows.push_back(step_row("step", steps.step_ms, 1));
  std::string text = "\ntime of a step, of the slowest rank (" + std::to_string(steps.wall_ms.size()) + " steps, after " +
                     std::to_string(steps.warmup_steps) + " to warm up)\n" + table_text(rows);
  text += "  " + format("%.0f", steps.samples_per_s) + " samples a second";
  if (steps.ranks > 1) text += ", load balance " + format("%.2f", steps.load_balance) + " (mean over largest compute of the ranks)";
  return text + "\n";
}

std::string run_text(const RankParts& rank) {
  std::int64_t wall_ns = 0;
  for (const auto& part : rank.parts) wall_ns += part.ns;
  Rows rows;
  for (const auto& part : rank.parts) {
    const double share = wall_ns > 0 ? static_cast<double>(part.ns) / static_cast<double>(wall_ns) : 0;
    rows.push_back({"", part.name, format("%.3f s", static_cast<double>(part.ns) * 1e-9), percent_text(share)});
  }
  rows.push_back({"", "all", format("%.3f s", static_cast<double>(wall_ns) * 1e-9), ""});
  return "\ntime of the run, rank " + std::to_string(rank.rank) + "\n" + table_text(rows);
}

/// " on 2 cores" where that is fewer than the ranks' threads need, for then their times say little of other machines.
std::string shared_cores(const recorder::Reader& reader, const recorder::RunRow& run) {
  int cores = 0, threads = 1;
  for (const auto& row : reader.environment(run.id)) {
    if (row.rank == -1 && row.fact.key == "cpu.affinity_count") cores = std::atoi(row.fact.value.c_str());
  }
  for (const auto& row : reader.settings(run.id)) {
    if (row.rank == 0 && row.setting.key == "threads") threads = std::atoi(row.setting.value.c_str());
  }
  return cores > 0 && run.world_size * threads > cores ? "; the ranks share " + std::to_string(cores) + (cores == 1 ? " core" : " cores") : "";
}

std::string efficiency_text(const profiler::Scaling& scaling) {
  const auto& one = scaling.reference;
  const auto& other = scaling.candidate;
  return "median step of " + ranks_text(one.ranks) + " " + ms_text(one.step_ms.median) + " ms, of " + ranks_text(other.ranks) + " " +
         ms_text(other.step_ms.median) + " ms; efficiency " + format("%.2f", scaling.efficiency) +
         " (95 %: " + format("%.2f", scaling.efficiency_low) + " to " + format("%.2f", scaling.efficiency_high) + "), " +
         std::string(profiler::to_string(scaling.regime)) + " scaling: " + format("%.0f", one.samples_per_step) + " and " +
         format("%.0f", other.samples_per_step) + " samples a step";
}

std::string lost_text(const profiler::Scaling& scaling) {
  const double mean_ms = scaling.candidate.mean_ms;
  std::vector<std::size_t> order;
  double rest_ms = 0;
  for (std::size_t part = 0; part < kParts.size(); ++part) {
    if (std::abs(scaling.lost_ms[part]) >= kWorthNaming * mean_ms) {
      order.push_back(part);
    } else {
      rest_ms += scaling.lost_ms[part];
    }
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scaling.lost_ms[a] > scaling.lost_ms[b]; });
  std::string text = "mean step " + ms_text(mean_ms) + " ms, ideally " + ms_text(scaling.ideal_ms) + "; lost to";
  for (const auto part : order)
    text += std::string(" ") + kParts[part].name + " " + ms_text(scaling.lost_ms[part]) + " (" +
            format("%.0f %%", 100 * scaling.lost_ms[part] / mean_ms) + "),";
  return text + " all else " + ms_text(rest_ms);
}

}  // namespace

RunSpeed read_speed(const recorder::Reader& reader, const recorder::RunRow& run) {
  RunSpeed speed;
  speed.steps = profiler::profile_steps(profiled(reader, run));
  const auto phases = reader.run_phases(run.id);
  for (const auto& rank : reader.ranks(run.id)) {
    profiler::RunTimes times{run.started_utc_ns, run.ended_utc_ns.value_or(run.heartbeat_utc_ns), rank.utc_ns, {}};
    for (const auto& row : phases) {
      if (row.rank == rank.rank) times.phases.push_back(row.phase);
    }
    auto parts = profiler::whole_run(times);
    if (!parts.empty()) speed.ranks.push_back({rank.rank, std::move(parts)});
  }
  return speed;
}

std::string speed_text(const RunSpeed& speed) {
  return (speed.steps ? steps_text(*speed.steps) : "") + (speed.ranks.empty() ? "" : run_text(speed.ranks.front()));
}

std::string scaling_block(const profiler::Scaling& scaling, const std::string& note) {
  const std::string title = "speed";
  std::string text = wrapped_text(efficiency_text(scaling) + note, kIndent, kColumns, kMostLines / 2) +
                     wrapped_text(lost_text(scaling), kIndent, kColumns, kMostLines / 2);
  return text.replace(0, title.size(), title);
}

std::string scaling_text(const recorder::Reader& reader, std::int64_t candidate, std::int64_t reference) {
  const auto one = reader.run(reference), other = reader.run(candidate);
  if (!one || !other || one->world_size == other->world_size) return "";
  const auto scaling = profiler::compare_speed(profiled(reader, *one), profiled(reader, *other));
  if (!scaling) return "";
  return scaling_block(*scaling, shared_cores(reader, *other));
}

}  // namespace samerun::cli
