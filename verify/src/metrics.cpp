#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>

#include "check.h"
#include "findings.h"
#include "metrics.h"
#include "numeric.h"
#include "samerun/core/error.h"
#include "samerun/core/metric_math.h"
#include "sharding.h"

// Metrics: of all samples, each once; computed from them by their rule; the same as the reference's.
namespace samerun::verify {
namespace {

const Metric* only_result(const MetricRecord& record) {
  return record.results.size() == 1 ? &record.results.front().metric : nullptr;
}

// ---- every sample has one row

/// Ids of the real samples of each (purpose, pass), and the rank that read each.
std::map<std::pair<std::string, std::int64_t>, std::map<std::int64_t, int>> read_samples(const RunData& run) {
  std::map<std::pair<std::string, std::int64_t>, std::map<std::int64_t, int>> samples;
  for (const auto& row : run.shards) {
    if (row.shard.filler) continue;
    const auto real = std::clamp<std::int64_t>(row.shard.real, 0, static_cast<std::int64_t>(row.shard.ids.size()));
    auto& pass = samples[{row.shard.purpose, row.shard.pass}];
    for (std::int64_t i = 0; i < real; ++i) pass.emplace(row.shard.ids[static_cast<std::size_t>(i)], row.rank);
  }
  return samples;
}

struct Gap {
  std::map<std::int64_t, int> missing;  // id, and the rank that read it
  std::vector<std::int64_t> unknown;
};
using Passes = std::map<std::tuple<std::string, std::string, std::int64_t>, Gap>;  // name, purpose, pass

Passes gaps_of(const RunData& run, const MetricRecords& records) {
  const auto samples = read_samples(run);
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::set<std::int64_t>> covered;
  for (const auto& [asked, record] : records) {
    if (record.has_rows) covered[{asked.name, asked.purpose, asked.pass}].insert(record.ids.begin(), record.ids.end());
  }
  Passes gaps;
  for (const auto& [key, ids] : covered) {
    Gap& gap = gaps[key];
    const auto pass = samples.find({std::get<1>(key), std::get<2>(key)});
    if (pass == samples.end()) continue;  // no ids were recorded: another check says so
    for (const auto& [id, rank] : pass->second) {
      if (ids.count(id) == 0) gap.missing.emplace(id, rank);
    }
    for (const auto id : ids) {
      if (pass->second.count(id) == 0) gap.unknown.push_back(id);
    }
  }
  return gaps;
}

class Rows {
 public:
  Rows(const Arm& arm, const RunData& run, bool is_reference, Findings& findings) : arm_(arm), run_(run), findings_(findings) {
    whose_ = is_reference ? " in the reference" : "";
  }

  void twice(const MetricRecords& records) {
    for (const auto& [asked, record] : records) {
      std::vector<std::int64_t> again;
      int rank = -1;
      for (std::size_t i = 1; i < record.ids.size(); ++i) {
        if (record.ids[i] != record.ids[i - 1]) continue;
        if (again.empty()) rank = record.ranks[i];
        again.push_back(record.ids[i]);
      }
      if (again.empty() || record.results.size() > 1) continue;
      findings_.add({{},
                     Verdict::kDifferent,
                     at::kMetric,
                     asked.name,
                     asked.step,
                     rank,
                     static_cast<double>(again.size()),
                     0,
                     metric_place(asked, arm_) + whose_ + " counts " + count_of(static_cast<std::int64_t>(again.size()), "sample") + " again (" +
                         some_ids(again) + "): padding, or a sample that two ranks read"},
                    "twice");
    }
  }

  // `others`: the gaps of the other run. A sample that both leave out is the program's choice.
  void gaps(const Passes& mine, const Passes& others, const MetricRecords& records, JudgedMetrics& judged) {
    if (!run_.whole_record()) return;
    for (const auto& [key, gap] : mine) {
      const auto& [name, purpose, pass] = key;
      const auto other = others.find(key);
      std::map<int, std::vector<std::int64_t>> missing;  // by rank
      for (const auto& [id, rank] : gap.missing) {
        if (other != others.end() && other->second.missing.count(id) != 0) {
          judged.left_out.insert(name);
        } else {
          missing[rank].push_back(id);
        }
      }
      const Asked place{name, purpose, pass, step_of(records, name, purpose, pass)};
      for (const auto& [rank, ids] : missing) told(place, rank, ids, "samples that rank " + std::to_string(rank) + " read have no row", "missing");
      if (!gap.unknown.empty()) told(place, -1, gap.unknown, "rows are of samples that the pass did not read", "unknown");
    }
  }

 private:
  void told(const Asked& place, int rank, const std::vector<std::int64_t>& ids, const std::string& what, const char* kind) {
    findings_.add({{},
                   Verdict::kDifferent,
                   at::kMetric,
                   place.name,
                   place.step,
                   rank,
                   static_cast<double>(ids.size()),
                   0,
                   metric_place(place, arm_) + whose_ + ": " + std::to_string(ids.size()) + " " + what + " (" + some_ids(ids) + ")"},
                  kind);
  }

  static std::int64_t step_of(const MetricRecords& records, const std::string& name, const std::string& purpose, std::int64_t pass) {
    const auto found = records.lower_bound({name, purpose, pass, INT64_MIN});
    return found == records.end() ? -1 : found->first.step;
  }

  const Arm& arm_;
  const RunData& run_;
  Findings& findings_;
  std::string whose_;
};

// ---- the value is what the rows make it

struct Bound {
  double numerator = 0, denominator = 0, value = 0;
};

// Two sums of n terms, each in some order, differ by at most 2 n u times the sum of magnitudes, to first order; the product
// of value and weight adds one rounding, the quotient two.
Bound rounding_of(const Metric& metric, const MetricRecord& record, const MetricResult& exact) {
  double magnitude = 0, weights = 0;
  auto terms = static_cast<double>(record.ids.size());
  if (metric.rule == metric_rule::kF1Macro) {
    terms = exact.denominator;
    magnitude = exact.numerator;
  } else {
    const bool weighted = metric.rule == metric_rule::kWeightedMean;
    for (std::size_t i = 0; i < record.ids.size(); ++i) {
      const double* row = record.values.data() + i * static_cast<std::size_t>(record.columns);
      magnitude += std::abs(weighted ? row[0] * row[1] : row[0]);
      weights += weighted ? std::abs(row[1]) : 0;
    }
  }
  Bound bound;
  bound.numerator = 2 * (terms + 1) * kUnit64 * magnitude;
  bound.denominator = 2 * terms * kUnit64 * weights;
  bound.value = metric.rule == metric_rule::kSum ? bound.numerator
                                                 : (bound.numerator + std::abs(exact.value) * bound.denominator) / std::abs(exact.denominator) +
                                                       4 * kUnit64 * std::abs(exact.value);
  return bound;
}

bool within(double a, double b, double limit) {
  return same_value(a, b) || std::abs(a - b) <= limit;
}

// The usual wrong ways to come to a value.
std::string explain(const Metric& metric, const MetricRecord& record, double limit) {
  std::map<int, MetricRecord> parts;
  for (std::size_t i = 0; i < record.ids.size(); ++i) {
    MetricRecord& part = parts[record.ranks[i]];
    part.ids.push_back(record.ids[i]);
    const auto first = record.values.begin() + static_cast<std::ptrdiff_t>(i) * record.columns;
    part.values.insert(part.values.end(), first, first + record.columns);
  }
  if (parts.size() < 2) return {};
  double sum = 0;
  for (const auto& [rank, part] : parts) {
    const double own = metric_of(metric.rule, record.columns, part.ids, part.values).value;
    if (within(metric.value, own, limit)) return "; it is the value of rank " + std::to_string(rank) + " alone";
    sum += own;
  }
  const auto ranks = static_cast<double>(parts.size());
  return within(metric.value, sum / ranks, limit + 2 * ranks * kUnit64 * std::abs(metric.value)) ? "; it is the average of the ranks' own values"
                                                                                                 : "";
}

class Recompute {
 public:
  Recompute(const Arm& arm, const RunData& run, Findings& findings, JudgedMetrics& judged)
      : arm_(arm), run_(run), findings_(findings), judged_(judged) {}

  void all(const MetricRecords& records) {
    for (const auto& [asked, record] : records) {
      if (asked.logged()) continue;
      if (record.results.size() > 1) {
        judged_.leave(asked.name, "asked for several times at one step");
      } else if (run_.whole_record()) {
        one(asked, record);
      }
    }
  }

 private:
  void one(const Asked& asked, const MetricRecord& record) {
    const Metric* metric = only_result(record);
    if (metric == nullptr) {
      findings_.different(at::kMetric, asked.name, asked.step, -1, metric_place(asked, arm_) + " has rows of samples and no value");
      return;
    }
    const int rank = record.results.front().rank;
    if (metric->rows != static_cast<std::int64_t>(record.ids.size())) {
      findings_.add(
          {{},
           Verdict::kDifferent,
           at::kMetric,
           asked.name,
           asked.step,
           rank,
           static_cast<double>(metric->rows),
           static_cast<double>(record.ids.size()),
           metric_place(asked, arm_) + " is over " + count_of(metric->rows, "sample") + ", the ranks gave " + std::to_string(record.ids.size())},
          "rows");
    }
    if (metric->rule == metric_rule::kSamples) return;  // a function of the program's: compared with the reference's
    if (std::adjacent_find(record.ids.begin(), record.ids.end()) != record.ids.end()) return;  // found already
    try {
      judge(asked, *metric, record, rank);
    } catch (const Error& error) {
      findings_.different(at::kMetric, asked.name, asked.step, rank, metric_place(asked, arm_) + " cannot be computed again: " + error.what());
    }
  }

  void judge(const Asked& asked, const Metric& metric, const MetricRecord& record, int rank) {
    const MetricResult exact = metric_of(metric.rule, record.columns, record.ids, record.values);
    const Bound bound = rounding_of(metric, record, exact);
    ++judged_.recomputed;
    judged_.samples += static_cast<std::int64_t>(record.ids.size());
    if (std::isfinite(exact.value)) judged_.judged.insert(asked.name);
    const bool value = within(metric.value, exact.value, bound.value);
    const bool parts = within(metric.numerator, exact.numerator, bound.numerator) && within(metric.denominator, exact.denominator, bound.denominator);
    if (value && parts)
      return judged_.closest.see(std::abs(metric.value - exact.value), bound.value, asked.name + ", step " + std::to_string(asked.step));
    judged_.wrong.insert(asked);
    const std::string made = ", its " + count_of(static_cast<std::int64_t>(record.ids.size()), "sample") + " make it ";
    if (!value) {
      findings_.different(at::kMetric, asked.name, asked.step, rank,
                          metric_place(asked, arm_) + " (" + metric.rule + ") is recorded as " + exact_number(metric.value) + made +
                              exact_number(exact.value) + explain(metric, record, bound.value),
                          std::abs(metric.value - exact.value), bound.value);
      return;
    }
    findings_.different(at::kMetric, asked.name, asked.step, rank,
                        metric_place(asked, arm_) + " is recorded as " + exact_number(metric.numerator) + " / " + exact_number(metric.denominator) +
                            made + exact_number(exact.numerator) + " / " + exact_number(exact.denominator),
                        std::abs(metric.numerator - exact.numerator), bound.numerator);
  }

  const Arm& arm_;
  const RunData& run_;
  Findings& findings_;
  JudgedMetrics& judged_;
};

std::string summary_of(const JudgedMetrics& judged, const std::vector<std::string>& unjudged) {
  std::string text = count_of(static_cast<std::int64_t>(judged.names.size()), "metric");
  if (judged.recomputed > 0) {
    text += ", " + count_of(judged.recomputed, "value") + " recomputed from " + count_of(judged.samples, "row");
  }
  if (judged.in_float64 > 0) text += ", " + std::to_string(judged.in_float64) + " compared in float64";
  if (judged.bitwise > 0) text += ", " + std::to_string(judged.bitwise) + " bit for bit in the program's own precision";
  text += judged.closest.text();
  if (!judged.left_out.empty()) text += "; some samples left out in both runs: " + some_names({judged.left_out.begin(), judged.left_out.end()}, 3);
  if (!unjudged.empty()) text += "; NOT JUDGED: " + some_names(unjudged, 3);
  return text;
}

}  // namespace

std::vector<std::string> JudgedMetrics::unjudged() const {
  std::vector<std::string> list;
  for (const auto& name : names) {
    if (judged.count(name) != 0) continue;
    const auto why = why_not.find(name);
    list.push_back(name + (why == why_not.end() ? "" : " (" + why->second + ")"));
  }
  return list;
}

std::string metric_place(const Asked& asked, const Arm& arm) {
  const std::string where = asked.logged() ? "" : " over " + asked.purpose + " pass " + std::to_string(asked.pass);
  return asked.name + where + in_arm(arm);
}

void check_metric_rows(const Arm& arm, const MetricRecords& d, const MetricRecords& r, Findings& findings, JudgedMetrics& judged) {
  const Passes of_d = gaps_of(arm.candidate, d), of_r = gaps_of(arm.reference, r);
  Rows candidate(arm, arm.candidate, false, findings), reference(arm, arm.reference, true, findings);
  candidate.twice(d);
  candidate.gaps(of_d, of_r, d, judged);
  reference.twice(r);
  reference.gaps(of_r, of_d, r, judged);
}

void check_metric_values(const Arm& arm, const MetricRecords& d, Findings& findings, JudgedMetrics& judged) {
  judged.wrong.clear();
  Recompute(arm, arm.candidate, findings, judged).all(d);
}

CheckResult check_metrics(const PairRecord& pair, Decided& decided) {
  Findings findings("metrics");
  JudgedMetrics judged;
  const auto moving = moving_metrics(pair);
  for (const Arm* arm : pair.arms()) {
    const auto d = metric_records(pair.reader, arm->candidate.id()), r = metric_records(pair.reader, arm->reference.id());
    for (const auto* records : {&d, &r}) {
      for (const auto& [asked, record] : *records) judged.names.insert(asked.name);
    }
    check_metric_rows(*arm, d, r, findings, judged);
    check_metric_values(*arm, d, findings, judged);
    if (moving) compare_logged_over_ranks(*arm, d, *moving, findings, judged);
    compare_metrics(pair, *arm, d, r, findings, judged);
  }
  decided.unjudged_metrics = judged.unjudged();
  if (judged.names.empty()) return findings.finish("the program records no metric");
  return findings.finish(summary_of(judged, decided.unjudged_metrics));
}

}  // namespace samerun::verify
