// Faults in how a metric comes from its rows.
#include "inject.h"
#include "metric_store.h"
#include "samerun/core/metric_math.h"

namespace samerun::fault {
namespace {

// Each rank computes the metric from its own rows, and the ranks' values are averaged; `part` of the way from the right value to that.
void mean_over_ranks(Seams& seams, const Settings& settings) {
  seams.metric = [settings](std::vector<detail::MetricRows>& by_rank, const detail::MetricContext& context) -> std::optional<double> {
    detail::MetricRows all;
    double sum = 0;
    for (const auto& rows : by_rank) {
      sum += metric_of(context.rule, context.columns, rows.ids, rows.values).value;
      all.ids.insert(all.ids.end(), rows.ids.begin(), rows.ids.end());
      all.values.insert(all.values.end(), rows.values.begin(), rows.values.end());
    }
    const double right = metric_of(context.rule, context.columns, all.ids, all.values).value;
    return right + settings.number("part", 1) * (sum / static_cast<double>(by_rank.size()) - right);
  };
}

}  // namespace

const Faults& metric_faults() {
  static const Faults faults{{"mean_over_ranks", mean_over_ranks}};
  return faults;
}

}  // namespace samerun::fault
