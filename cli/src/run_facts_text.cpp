#include <algorithm>
#include <cstdio>

#include "process_group.h"
#include "run_facts.h"
#include "table.h"

namespace samerun::cli {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kMostLines = 20;  ///< Of one section; --json has all.
constexpr std::size_t kWidest = 100;

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string cut(const std::string& text) {
  const std::string safe = printable(text);
  return safe.size() <= kWidest ? safe : safe.substr(0, kWidest) + "...";
}

std::string section(const std::string& title, Rows rows) {
  if (rows.empty()) return "";
  const std::size_t count = rows.size();
  if (count > kMostLines) rows.resize(kMostLines);
  for (auto& row : rows) row.insert(row.begin(), " ");
  std::string text = "\n" + title + "\n" + table_text(rows);
  if (count > kMostLines) text += "   ... and " + std::to_string(count - kMostLines) + " more, see --json\n";
  return text;
}

std::string exit_text(const RunFacts& facts, int rank) {
  for (const recorder::RankExitRow& exit : facts.exits) {
    if (exit.rank != rank) continue;
    const std::string first = exit.first_failure ? ", failed first" : "";
    if (exit.signal) return "killed by " + signal_name(*exit.signal) + first;
    if (exit.exit_code) return "exit code " + std::to_string(*exit.exit_code) + first;
  }
  return "exit unknown";
}

Rows rank_rows(const RunFacts& facts) {
  Rows rows;
  for (int rank = 0; rank < facts.run.world_size; ++rank) {
    const auto row = std::find_if(facts.ranks.begin(), facts.ranks.end(), [&](const recorder::RankRow& candidate) { return candidate.rank == rank; });
    std::vector<std::string> cells{"rank " + std::to_string(rank)};
    if (row == facts.ranks.end()) {
      cells.insert(cells.end(), {"no Accelerator was made", "", exit_text(facts, rank), ""});
    } else {
      const std::string steps = row->steps >= 0 ? std::to_string(row->steps) + " steps" : "";
      cells.insert(cells.end(),
                   {row->host + " pid " + std::to_string(row->pid), steps, exit_text(facts, rank), row->status + " " + cut(row->message)});
    }
    rows.push_back(std::move(cells));
  }
  return rows;
}

/// Rows that all ranks share stand once.
Rows setting_rows(const RunFacts& facts) {
  Rows rows;
  for (const recorder::SettingRow& row : facts.settings) {
    const std::vector<std::string> cells{row.setting.key, cut(row.setting.value), "(" + row.setting.origin + ")"};
    if (std::find(rows.begin(), rows.end(), cells) == rows.end()) rows.push_back(cells);
  }
  return rows;
}

Rows dataset_rows(const RunFacts& facts) {
  Rows rows;
  for (const recorder::DatasetRow& row : facts.datasets) {
    rows.push_back({row.dataset.purpose, "rank " + std::to_string(row.rank), std::to_string(row.dataset.size) + " samples",
                    std::to_string(row.dataset.rows) + " seen", to_hex(row.dataset.digest)});
  }
  return rows;
}

Rows environment_rows(const RunFacts& facts) {
  Rows rows;
  for (const recorder::EnvironmentRow& row : facts.environment) {
    const bool machine = row.fact.key.starts_with("cpu.") || row.fact.key.starts_with("os.") || row.fact.key.starts_with("memory.") ||
                         row.fact.key.starts_with("torch.") || row.fact.key == "host.name";
    if (!machine || row.fact.value.empty()) continue;
    const std::vector<std::string> cells{row.fact.key, cut(row.fact.value)};
    if (std::find(rows.begin(), rows.end(), cells) == rows.end()) rows.push_back(cells);
  }
  return rows;
}

Rows metric_rows(const RunFacts& facts) {
  Rows rows;
  for (const auto& [key, metric] : facts.metrics) {
    std::string rule = metric.rule;
    if (metric.rows >= 0) {
      rule += " over " + std::to_string(metric.rows) + " samples, " + metric.purpose + " pass " + std::to_string(metric.pass);
    }
    rows.push_back({cut(metric.name), number(metric.value), "step " + std::to_string(metric.step) + ", epoch " + std::to_string(metric.epoch), rule});
  }
  return rows;
}

Rows checkpoint_rows(const RunFacts& facts) {
  Rows rows;
  for (const CheckpointCommitted& checkpoint : facts.checkpoints) {
    const Position& position = checkpoint.position;
    rows.push_back({"step " + std::to_string(position.optimizer_step), "epoch " + std::to_string(position.epoch),
                    std::to_string(checkpoint.bytes) + " bytes", printable(checkpoint.path)});
  }
  return rows;
}

Rows event_rows(const RunFacts& facts) {
  Rows rows;
  for (const recorder::EventRow& row : facts.events) {
    rows.push_back({row.event.severity, "rank " + std::to_string(row.rank), row.event.kind, cut(row.event.text)});
  }
  return rows;
}

std::string code_text(const RunFacts& facts) {
  if (!facts.code || facts.code->head.empty()) return "unknown" + (facts.code ? " (" + facts.code->why_null + ")" : "");
  const std::string branch = facts.code->branch.empty() ? "" : " on " + facts.code->branch;
  const std::string dirty = facts.code->dirty.value_or(false) ? ", with uncommitted changes (recorded)" : "";
  return printable(facts.code->head + branch + dirty);
}

Rows head_rows(const RunFacts& facts) {
  const recorder::RunRow& run = facts.run;
  const std::string exit = run.exit_code ? ", exit code " + std::to_string(*run.exit_code) : "";
  const std::string pair = run.group_id.empty() ? "" : " of pair " + run.group_id;
  const std::int64_t duration = run.ended_utc_ns.value_or(run.heartbeat_utc_ns) - run.started_utc_ns;
  Rows rows{{"run", std::to_string(run.id) + ", " + run.role + pair},
            {"status", run.status + exit + (run.complete ? ", record complete" : ", record not complete")},
            {"program", command_text(run.argv)},
            {"folder", printable(run.cwd)},
            {"started", utc_text(run.started_utc_ns) + " UTC, took " + duration_text(duration)},
            {"code", code_text(facts)}};
  if (run.parent_id) rows.push_back({"parent", "goes on from run " + std::to_string(*run.parent_id)});
  if (!run.message.empty()) rows.push_back({"message", printable(run.message)});
  if (facts.dropped_rows > 0) rows.push_back({"dropped", std::to_string(facts.dropped_rows) + " rows could not be kept"});
  return rows;
}

Rows step_rows(const RunFacts& facts) {
  Rows rows;
  if (!facts.batch) return rows;
  const RunFacts::Batch& batch = *facts.batch;
  std::string effective = std::to_string(batch.set) + " set, " + std::to_string(batch.counted) + " counted";
  if (batch.last_counted) effective += "; last step " + std::to_string(*batch.last_counted);
  if (batch.steps_that_disagree > 0) effective += "; " + std::to_string(batch.steps_that_disagree) + " STEPS DISAGREE";
  rows.push_back({"steps", std::to_string(facts.steps) + (facts.skipped_steps > 0 ? ", skipped " + std::to_string(facts.skipped_steps) : "")});
  rows.push_back({"batch", effective});
  if (facts.last_step && facts.last_step->loss_denominator > 0) {
    rows.push_back({"loss", number(facts.last_step->loss_numerator / facts.last_step->loss_denominator) + " at the last step"});
  }
  return rows;
}

}  // namespace

std::string facts_text(const RunFacts& facts) {
  Rows head = head_rows(facts);
  const Rows steps = step_rows(facts);
  head.insert(head.end(), steps.begin(), steps.end());
  return table_text(head) + section("ranks", rank_rows(facts)) + speed_text(facts.speed) + section("datasets", dataset_rows(facts)) +
         section("metrics", metric_rows(facts)) + section("checkpoints", checkpoint_rows(facts)) + section("settings", setting_rows(facts)) +
         section("environment", environment_rows(facts)) + section("events", event_rows(facts));
}

}  // namespace samerun::cli
