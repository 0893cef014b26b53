#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "findings.h"
#include "pair_record.h"

// The parts of the metrics check: what the record holds, what holds within one run, and what holds between the runs.
namespace samerun::verify {

/// One time that a metric was asked for: over which pass, at which step. Logged values have pass -1, and a purpose where they come from
/// inside a training loop.
struct Asked {
  std::string name, purpose;
  std::int64_t pass = -1, step = 0;
  auto operator<=>(const Asked&) const = default;
  bool logged() const { return pass < 0; }
};

/// What the record holds of it.
struct MetricRecord {
  std::vector<recorder::MetricRow> results;   ///< One; more where it was asked for, or logged, again at that step. Logged: rank 0's.
  std::map<int, std::vector<double>> others;  ///< What the other ranks logged, by rank.
  std::int64_t columns = 1;
  bool has_rows = false;
  std::vector<std::int64_t> ids;  ///< Ascending; over all ranks.
  std::vector<int> ranks;         ///< Whose rows they are.
  std::vector<double> values;     ///< [ids, columns].
};

using MetricRecords = std::map<Asked, MetricRecord>;

MetricRecords metric_records(const recorder::Reader& reader, std::int64_t run);

/// What was judged, and why the rest was not.
struct JudgedMetrics {
  std::set<std::string> names, judged;         ///< Of all metrics in the native runs; of those that a comparison decided.
  std::map<std::string, std::string> why_not;  ///< The first reason.
  std::set<std::string> left_out;              ///< Metrics that leave out samples, the same in both runs.
  std::set<Asked> wrong;                       ///< In the arm at hand: values that are not what their rows make them.
  std::int64_t recomputed = 0, samples = 0, in_float64 = 0, bitwise = 0;
  Closest closest;

  void leave(const std::string& name, const std::string& why) { why_not.try_emplace(name, why); }
  std::vector<std::string> unjudged() const;  ///< "name (why)".
};

/// "loss over evaluation pass 1 of the float64 run".
std::string metric_place(const Asked& asked, const Arm& arm);

/// Every real sample of a pass has one row, in both runs.
void check_metric_rows(const Arm& arm, const MetricRecords& d, const MetricRecords& r, Findings& findings, JudgedMetrics& judged);
/// The candidate's values are what its rows make them.
void check_metric_values(const Arm& arm, const MetricRecords& d, Findings& findings, JudgedMetrics& judged);
/// Names of logged values that re-executions of the float64 reference move (a clock); nullopt without re-executions.
std::optional<std::set<std::string>> moving_metrics(const PairRecord& pair);
/// What every rank logs under one name is one value: else only rank 0's batches are in the metric. Leaves out what `moving` names.
void compare_logged_over_ranks(const Arm& arm, const MetricRecords& d, const std::set<std::string>& moving, Findings& findings,
                               JudgedMetrics& judged);
/// The candidate's rows and values are the reference's: in float64 up to the noise of re-executions, else bitwise where the
/// states are.
void compare_metrics(const PairRecord& pair, const Arm& arm, const MetricRecords& d, const MetricRecords& r, Findings& findings,
                     JudgedMetrics& judged);

}  // namespace samerun::verify
