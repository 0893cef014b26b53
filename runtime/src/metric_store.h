#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "samerun/runtime/metric.h"

namespace samerun::detail {

struct CurrentBatch;
class Engine;
class StateTree;

/// Rows of a metric: [ids, columns] values, row by row.
struct MetricRows {
  std::vector<std::int64_t> ids;
  std::vector<double> values;
};

/// What this rank has been given of one metric since it was last asked for: rows of one pass of one loader.
struct PendingMetric {
  MetricRule rule;
  std::string purpose;
  std::int64_t epoch = 0, pass = 0, columns = 0;
  MetricRows rows;
};

/// The metrics under way on this rank, by name.
class MetricStore {
 public:
  /// Adds the real rows of `batch`. Throws kInvalidArgument as Accelerator::metric() does; nothing is added then.
  void add(const std::string& name, const at::Tensor& values, const MetricRule& rule, const CurrentBatch& batch, int rank);
  /// The metric over all ranks, recorded; its rows are dropped. Collective. Throws as Accelerator::metric_value() does.
  double value(const std::string& name, Engine& engine);
  /// Rows not yet asked for, as leaves "metric/NAME/..." of this rank, and back.
  void capture(StateTree& tree) const;
  void apply(const StateTree& tree);

 private:
  std::map<std::string, PendingMetric> pending_;
};

}  // namespace samerun::detail
