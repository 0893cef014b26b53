// The rows of metrics under way as leaves of a checkpoint.

#include <torch/types.h>

#include <algorithm>

#include "metric_store.h"
#include "samerun/core/error.h"
#include "samerun/core/metric_math.h"
#include "state_tree.h"

namespace samerun::detail {
namespace {

/// A function of the program's own is in no checkpoint: the first batch given after the load brings it.
MetricRule rule_of(const std::string& word) {
  if (word == metric_rule::kSum) return MetricRule::sum();
  if (word == metric_rule::kMean) return MetricRule::mean();
  if (word == metric_rule::kWeightedMean) return MetricRule::weighted_mean();
  if (word == metric_rule::kF1Macro) return MetricRule::f1_macro();
  return MetricRule::from_samples([](const at::Tensor&) -> double {
    throw Error(ErrorCode::kInvalidArgument,
                "metric_value() right after load_state(): the metric's function is not in the checkpoint; save after metric_value(), or give a batch "
                "before asking");
  });
}

template <class Value>
std::vector<Value> values_of(const at::Tensor& tensor) {
  const auto flat = tensor.contiguous();
  return {flat.const_data_ptr<Value>(), flat.const_data_ptr<Value>() + flat.numel()};
}

}  // namespace

void MetricStore::capture(StateTree& tree) const {
  for (const auto& [name, pending] : pending_) {
    const auto path = "metric/" + name + "/";
    tree.set(path + "rule", pending.rule.word(), true);
    tree.set(path + "purpose", pending.purpose, true);
    tree.set(path + "epoch", pending.epoch, true);
    tree.set(path + "pass", pending.pass, true);
    tree.set(path + "columns", pending.columns, true);
    tree.set(path + "ids", at::tensor(pending.rows.ids, at::kLong), true);
    tree.set(path + "values", at::tensor(pending.rows.values, at::kDouble), true);
  }
}

void MetricStore::apply(const StateTree& tree) {
  const std::string last = "/rule";
  pending_.clear();
  for (const auto& [rest, leaf] : tree.below("metric/")) {
    if (!rest.ends_with(last)) continue;
    const auto name = rest.substr(0, rest.size() - last.size());
    const auto path = "metric/" + name + "/";
    PendingMetric pending{rule_of(leaf->text),
                          tree.text(path + "purpose"),
                          tree.integer(path + "epoch"),
                          tree.integer(path + "pass"),
                          tree.integer(path + "columns"),
                          {values_of<std::int64_t>(tree.tensor(path + "ids")), values_of<double>(tree.tensor(path + "values"))}};
    pending_.try_emplace(name, std::move(pending));
  }
}

}  // namespace samerun::detail
