#include "samerun/runtime/metric.h"

#include <torch/types.h>

#include "engine.h"
#include "gather.h"
#include "metric_store.h"
#include "samerun/core/error.h"
#include "samerun/core/metric_math.h"
#include "samerun/runtime/accelerator.h"

namespace samerun {

MetricRule MetricRule::sum() {
  return MetricRule(metric_rule::kSum);
}
MetricRule MetricRule::mean() {
  return MetricRule(metric_rule::kMean);
}
MetricRule MetricRule::weighted_mean() {
  return MetricRule(metric_rule::kWeightedMean);
}
MetricRule MetricRule::f1_macro() {
  return MetricRule(metric_rule::kF1Macro);
}
MetricRule MetricRule::from_samples(Function function) {
  if (!function) throw Error(ErrorCode::kInvalidArgument, "from_samples() takes the function that computes the metric from all rows");
  return MetricRule(metric_rule::kSamples, std::move(function));
}

namespace detail {
namespace {

/// Throws kInvalidArgument where the rule would average what is no average, or the values are no rows of the batch.
void check_values(const std::string& name, const at::Tensor& values, const MetricRule& rule, const CurrentBatch& batch, int rank) {
  const auto refuse = [&](const std::string& message, Error::Context context) {
    context["metric"] = name;
    throw Error(ErrorCode::kInvalidArgument, message, std::move(context), rank);
  };
  if (!batch.valid) refuse("metric() takes rows of a loader's current batch: call it inside `for (auto& batch : loader)`", {});
  const auto wanted = metric_columns(rule.word());
  const auto word = non_additive_word(name);
  const bool additive = rule.word() != metric_rule::kF1Macro && rule.word() != metric_rule::kSamples;
  if (additive && !word.empty())
    refuse("'" + word + "' is no average over samples, batches or ranks: give predictions and labels to MetricRule::f1_macro(), or the rows to " +
               "MetricRule::from_samples(); where each sample has a value of its own, name the metric otherwise",
           {{"rule", rule.word()}});
  if (!values.defined() || values.dim() == 0 || values.size(0) != batch.rows)
    refuse("metric() takes one row a sample, so that padding can be left out; a value already reduced over the batch has none (give it unreduced)",
           {{"rows", std::to_string(!values.defined() || values.dim() == 0 ? 0 : values.size(0))}, {"batch rows", std::to_string(batch.rows)}});
  if (values.dim() > 2 || values.is_complex()) refuse("metric() takes [rows] or [rows, columns] of real numbers", {});
  const auto columns = values.dim() == 1 ? 1 : values.size(1);
  if (columns == 0 || (wanted > 0 && columns != wanted))
    refuse(
        "the rule takes rows of other columns: (value, weight) for weighted_mean(), (prediction, label) for f1_macro(), one value for sum() and "
        "mean()",
        {{"rule", rule.word()}, {"columns", std::to_string(columns)}});
  if (rule.word() == metric_rule::kF1Macro && values.is_floating_point() && (values - values.floor()).gt(0).any().item<bool>())
    refuse("f1_macro() takes the numbers of classes, (predicted, true), not probabilities: use argmax(), or a threshold", {});
}

}  // namespace

void MetricStore::add(const std::string& name, const at::Tensor& values, const MetricRule& rule, const CurrentBatch& batch, int rank) {
  check_values(name, values, rule, batch, rank);
  const auto columns = values.dim() == 1 ? 1 : values.size(1);
  const auto found = pending_.find(name);
  if (found != pending_.end()) {
    const auto& before = found->second;
    if (before.rule.word() != rule.word() || before.columns != columns)
      throw Error(ErrorCode::kInvalidArgument, "a metric has one rule and one number of columns until metric_value() has been asked for",
                  {{"metric", name},
                   {"before", before.rule.word() + " of " + std::to_string(before.columns)},
                   {"now", rule.word() + " of " + std::to_string(columns)}},
                  rank);
    if (before.purpose != batch.purpose || before.epoch != batch.epoch || before.pass != batch.pass)
      throw Error(ErrorCode::kInvalidArgument, "a metric is over one pass of one loader: ask for metric_value() after each pass, or use another name",
                  {{"metric", name},
                   {"before", before.purpose + " pass " + std::to_string(before.pass)},
                   {"now", batch.purpose + " pass " + std::to_string(batch.pass)}},
                  rank);
  }
  auto& pending = found != pending_.end()
                      ? found->second
                      : pending_.try_emplace(name, PendingMetric{rule, batch.purpose, batch.epoch, batch.pass, columns, {}}).first->second;
  pending.rule = rule;  // a load brings the rows without the program's function
  const torch::NoGradGuard guard;
  const auto real = values.detach().narrow(0, 0, batch.real).to(at::kCPU, at::kDouble).contiguous();
  const auto* first = real.const_data_ptr<double>();
  pending.rows.values.insert(pending.rows.values.end(), first, first + real.numel());
  const auto& ids = batch.slot.batch.ids;
  pending.rows.ids.insert(pending.rows.ids.end(), ids.begin(), ids.begin() + batch.real);
}

namespace {

/// What the ranks must have in common. A rank that was given nothing (it left its fillers out) has no say.
struct Agreed {
  int holder = -1;  ///< First rank that was given something; -1: none.
  std::int64_t columns = 0;
};

Agreed agree(Communicator& communicator, const std::string& name, const PendingMetric* mine) {
  require_agreement(communicator, "the metrics asked for", {"metric=" + name});
  std::string text;
  if (mine != nullptr)
    text = mine->rule.word() + " of " + std::to_string(mine->columns) + " columns over pass " + std::to_string(mine->pass) + " of '" + mine->purpose +
           "', epoch " + std::to_string(mine->epoch);
  const auto texts = communicator.world_size() == 1 ? std::vector<std::string>{text} : gather_texts(communicator, text);
  Agreed agreed;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    if (texts[r].empty()) continue;
    if (agreed.holder < 0) agreed.holder = static_cast<int>(r);
    const auto first = static_cast<std::size_t>(agreed.holder);
    if (texts[r] != texts[first])
      throw Error(ErrorCode::kRendezvous,
                  "metric '" + name + "' differs over ranks: rank " + std::to_string(first) + " has '" + texts[first] + "', rank " +
                      std::to_string(r) + " has '" + texts[r] + "'; every rank must give it by the same rule",
                  {}, communicator.rank());
  }
  auto columns = at::full({1}, mine != nullptr ? mine->columns : 0, at::kLong);
  communicator.all_reduce(columns, Reduction::kMax).wait();
  agreed.columns = columns.item<std::int64_t>();
  return agreed;
}

/// Rows of every rank, in rank order.
std::vector<MetricRows> gather_metric(Communicator& communicator, const MetricRows& mine, std::int64_t columns) {
  const auto count = static_cast<std::int64_t>(mine.ids.size());
  auto ids = at::empty({count}, at::kLong);
  std::copy(mine.ids.begin(), mine.ids.end(), ids.data_ptr<std::int64_t>());
  auto values = at::empty({count, columns}, at::kDouble);
  std::copy(mine.values.begin(), mine.values.end(), values.data_ptr<double>());
  const auto all_ids = gather_ragged(communicator, ids);
  const auto all_values = gather_ragged(communicator, values);
  std::vector<MetricRows> by_rank(all_ids.size());
  for (std::size_t r = 0; r < by_rank.size(); ++r) {
    const auto rank_ids = all_ids[r].contiguous(), rank_values = all_values[r].contiguous();
    by_rank[r].ids.assign(rank_ids.const_data_ptr<std::int64_t>(), rank_ids.const_data_ptr<std::int64_t>() + rank_ids.numel());
    by_rank[r].values.assign(rank_values.const_data_ptr<double>(), rank_values.const_data_ptr<double>() + rank_values.numel());
  }
  return by_rank;
}

MetricRows joined(const std::vector<MetricRows>& by_rank) {
  MetricRows all;
  for (const auto& part : by_rank) {
    all.ids.insert(all.ids.end(), part.ids.begin(), part.ids.end());
    all.values.insert(all.values.end(), part.values.begin(), part.values.end());
  }
  return all;
}

/// All rows in order of sample id. Throws kInvalidArgument where a sample comes twice.
MetricRows in_order(const std::vector<MetricRows>& by_rank, const std::string& name, std::int64_t columns, int rank) {
  const auto all = joined(by_rank);
  std::vector<std::size_t> order;
  try {
    order = sample_order(all.ids);
  } catch (const Error& error) {
    auto context = error.context();
    context["metric"] = name;
    throw Error(ErrorCode::kInvalidArgument, "metric_value(): a sample was given twice in one pass; call metric() once for each batch",
                std::move(context), rank);
  }
  MetricRows sorted;
  sorted.values.reserve(all.values.size());
  for (const auto row : order) {
    sorted.ids.push_back(all.ids[row]);
    const auto first = all.values.begin() + static_cast<std::ptrdiff_t>(row) * columns;
    sorted.values.insert(sorted.values.end(), first, first + columns);
  }
  return sorted;
}

MetricResult compute(const Engine& engine, const std::string& name, const PendingMetric& mine, std::vector<MetricRows> by_rank) {
  if (engine.seams.metric) {
    const auto value = engine.seams.metric(by_rank, {name, mine.rule.word(), mine.columns, engine.rank(), engine.launch.world_size});
    if (value) return {*value, *value, 1, static_cast<std::int64_t>(joined(by_rank).ids.size())};
  }
  const auto rows = in_order(by_rank, name, mine.columns, engine.rank());
  if (!mine.rule.function()) return metric_of(mine.rule.word(), mine.columns, rows.ids, rows.values);
  const torch::NoGradGuard guard;
  auto table = at::empty({static_cast<std::int64_t>(rows.ids.size()), mine.columns}, at::kDouble);
  std::copy(rows.values.begin(), rows.values.end(), table.data_ptr<double>());
  const double value = mine.rule.function()(table);
  return {value, value, 1, table.size(0)};
}

void emit(const Engine& engine, const std::string& name, const PendingMetric& mine, const MetricResult& result, bool holder) {
  if (!engine.recording()) return;
  const auto step = engine.position.optimizer_step;
  engine.observers().on_sample_values({step, mine.epoch, mine.purpose, mine.pass, name, mine.columns, mine.rows.ids, mine.rows.values});
  if (!holder) return;
  engine.observers().on_metric(
      {step, mine.epoch, name, result.value, mine.rule.word(), mine.purpose, mine.pass, result.numerator, result.denominator, result.rows});
}

}  // namespace

double MetricStore::value(const std::string& name, Engine& engine) {
  const auto found = pending_.find(name);
  const auto* mine = found == pending_.end() ? nullptr : &found->second;
  auto& communicator = *engine.communicator;
  const auto agreed = agree(communicator, name, mine);
  if (agreed.holder < 0)
    throw Error(
        ErrorCode::kInvalidArgument,
        "metric_value() of a metric that was given nothing since it was last asked for: call metric() for each batch first, and metric_value() once "
        "after the loop",
        {{"metric", name}}, engine.rank());
  auto by_rank = gather_metric(communicator, mine != nullptr ? mine->rows : MetricRows{}, agreed.columns);
  MetricResult result;
  if (mine != nullptr) {
    const auto taken = std::move(found->second);
    pending_.erase(found);
    result = compute(engine, name, taken, std::move(by_rank));
    emit(engine, name, taken, result, engine.rank() == agreed.holder);
  }
  // A rank that was given nothing does not know the program's function.
  auto value = at::full({1}, result.value, at::kDouble);
  communicator.broadcast(value, agreed.holder);
  return value.item<double>();
}

}  // namespace detail

void Accelerator::metric(const std::string& name, const at::Tensor& values, const MetricRule& rule) {
  const detail::SpanTimer timer(engine_->spans, SpanKind::kEvaluation);
  engine_->metrics.add(name, values, rule, engine_->in_hand(), rank());
}

double Accelerator::metric_value(const std::string& name) {
  const detail::SpanTimer timer(engine_->spans, SpanKind::kEvaluation);
  return engine_->metrics.value(name, *engine_);
}

}  // namespace samerun
