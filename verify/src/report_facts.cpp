#include <algorithm>
#include <map>
#include <set>

#include "numeric.h"
#include "pair_record.h"
#include "samerun/verify/report_html.h"

namespace samerun::verify {
namespace {

constexpr std::size_t kMostLossPoints = 400;

using Values = std::map<std::string, std::string>;

std::string run_words(const recorder::RunRow& run) {
  return "run " + std::to_string(run.id) + " (" + run.role + ", " + count_of(run.world_size, "rank") + ")";
}

void say_what_is_missing(const recorder::Reader& reader, const recorder::RunRow& run, std::vector<std::string>& missing) {
  const std::string name = run_words(run);
  if (run.status != "finished" && run.status != "stopped") {
    missing.push_back(name + " is " + run.status + (run.message.empty() ? "" : ": " + run.message));
  } else if (!run.complete) {
    missing.push_back("the record of " + name + " is not complete: rows may be missing");
  }
  const std::int64_t dropped = reader.dropped_rows(run.id);
  if (dropped > 0) missing.push_back(count_of(dropped, "row") + " of " + name + " could not be kept");
}

void gather_runs(const recorder::Reader& reader, const Report& report, ReportFacts& facts) {
  std::vector<recorder::RunRow> rows;
  if (!report.group_id.empty()) rows = reader.group(report.group_id);
  for (const std::int64_t id : {report.reference, report.candidate}) {
    if (std::any_of(rows.begin(), rows.end(), [id](const recorder::RunRow& run) { return run.id == id; })) continue;
    if (const auto run = reader.run(id)) rows.insert(rows.begin(), *run);
  }
  for (const auto& run : rows) {
    facts.runs.push_back({run, reader.code(run.id)});
    say_what_is_missing(reader, run, facts.missing);
  }
  if (!reader.run(report.candidate)) facts.missing.insert(facts.missing.begin(), "no run of the candidate was recorded");
  if (!reader.run(report.reference)) facts.missing.insert(facts.missing.begin(), "no run of the reference was recorded");
}

std::optional<std::string> find(const Values& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

/// Both runs' values side by side, where `keep` wants them.
template <class Keep>
std::vector<TwoValues> side_by_side(const Values& candidate, const Values& reference, Keep keep) {
  std::set<std::string> keys;
  for (const auto& [key, value] : candidate) keys.insert(key);
  for (const auto& [key, value] : reference) keys.insert(key);
  std::vector<TwoValues> rows;
  for (const std::string& key : keys) {
    TwoValues row{key, find(candidate, key), find(reference, key)};
    if (keep(row)) rows.push_back(std::move(row));
  }
  return rows;
}

/// A key that ranks have different values of is told rank by rank.
Values joined(const std::map<std::string, std::map<int, std::string>>& by_rank) {
  Values values;
  for (const auto& [key, of_ranks] : by_rank) {
    std::set<std::string> distinct;
    for (const auto& [rank, value] : of_ranks) distinct.insert(value);
    if (distinct.size() == 1) {
      values[key] = *distinct.begin();
      continue;
    }
    std::string& text = values[key];
    for (const auto& [rank, value] : of_ranks) text += (text.empty() ? "" : ", ") + std::string("rank ") + std::to_string(rank) + ": " + value;
  }
  return values;
}

Values settings_of(const recorder::Reader& reader, std::int64_t run, bool with_origin) {
  std::map<std::string, std::map<int, std::string>> by_rank;
  for (const auto& row : reader.settings(run)) {
    by_rank[row.setting.key][row.rank] = row.setting.value + (with_origin ? " (" + row.setting.origin + ")" : "");
  }
  return joined(by_rank);
}

/// A value that another origin gave is no difference.
std::vector<TwoValues> settings_that_differ(const recorder::Reader& reader, std::int64_t candidate, std::int64_t reference) {
  const Values a = settings_of(reader, candidate, false), b = settings_of(reader, reference, false);
  return side_by_side(settings_of(reader, candidate, true), settings_of(reader, reference, true),
                      [&](const TwoValues& row) { return find(a, row.name) != find(b, row.name); });
}

Values environment_of(const recorder::Reader& reader, std::int64_t run) {
  std::map<std::string, std::map<int, std::string>> by_rank;
  for (const auto& row : reader.environment(run)) {
    if (!row.fact.value.empty()) by_rank[row.fact.key][row.rank] = row.fact.value;
  }
  return joined(by_rank);
}

// What a reader asks first about a machine. The rest is shown where the runs differ.
bool tells_the_machine(const std::string& key) {
  static const std::set<std::string> kKeys = {"host.name",          "os.name",        "os.kernel",  "cpu.model",      "cpu.cores_online",
                                              "cpu.affinity_count", "memory.total",   "libtorch",   "cpu_capability", "mkl",
                                              "library.glibc",      "build.compiler", "build.type", "build.flags",    "build.version"};
  return kKeys.count(key) != 0;
}

Values metrics_of(const recorder::Reader& reader, std::int64_t run) {
  Values values;
  for (const auto& row : reader.metrics(run)) {
    if (row.rank == 0) values[row.metric.name] = exact_number(row.metric.value) + " (step " + std::to_string(row.metric.step) + ")";
  }
  return values;
}

LossCurve loss_of(const recorder::Reader& reader, std::int64_t run, const std::string& name) {
  LossCurve curve{name, {}, {}};
  for (const auto& row : reader.steps(run)) {
    if (row.rank != 0 || row.step.loss_denominator == 0) continue;
    curve.steps.push_back(row.step.step);
    curve.loss.push_back(row.step.loss_numerator / row.step.loss_denominator);
  }
  // Every n-th step, so that both runs show the same ones.
  const std::size_t stride = (curve.steps.size() + kMostLossPoints - 1) / kMostLossPoints;
  if (stride <= 1) return curve;
  LossCurve thin{name, {}, {}};
  for (std::size_t i = 0; i < curve.steps.size(); i += stride) {
    thin.steps.push_back(curve.steps[i]);
    thin.loss.push_back(curve.loss[i]);
  }
  return thin;
}

}  // namespace

ReportFacts gather_report_facts(const recorder::Reader& reader, const Report& report) {
  ReportFacts facts;
  gather_runs(reader, report, facts);
  const std::int64_t candidate = report.candidate, reference = report.reference;
  facts.settings = settings_that_differ(reader, candidate, reference);
  facts.environment = side_by_side(environment_of(reader, candidate), environment_of(reader, reference),
                                   [](const TwoValues& row) { return tells_the_machine(row.name) || row.candidate != row.reference; });
  facts.metrics = side_by_side(metrics_of(reader, candidate), metrics_of(reader, reference), [](const TwoValues&) { return true; });
  for (LossCurve curve : {loss_of(reader, candidate, "candidate"), loss_of(reader, reference, "reference")}) {
    if (!curve.steps.empty()) facts.losses.push_back(std::move(curve));
  }
  return facts;
}

}  // namespace samerun::verify
