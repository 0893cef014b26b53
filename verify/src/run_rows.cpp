#include "run_rows.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "numeric.h"
#include "sharding.h"
#include "tensor_rows.h"

namespace samerun::verify {
namespace {

struct Root {
  const char* what;
  const char* stage;      // of the finding
  const char* row_stage;  // of the tensor rows that name the tensor; null where there are none
  Digest Step::*digest;
};
constexpr Root kRoots[] = {{"reduced gradients", at::kReduced, stage::kRaw, &Step::root_raw},
                           {"clipped gradients", at::kClipped, stage::kClipped, &Step::root_clipped},
                           {"updates", at::kUpdate, stage::kUpdate, &Step::root_update},
                           {"parameters and buffers", at::kState, stage::kState, &Step::root_after},
                           {"optimizer state", at::kState, nullptr, &Step::root_moments_after}};
// What a run starts from: of its first step only, later ones begin where the step before ended.
constexpr Root kBefore[] = {{"parameters and buffers before the step", at::kInitial, nullptr, &Step::root_before},
                            {"optimizer state before the step", at::kInitial, nullptr, &Step::root_moments_before}};

struct Real {
  const char* what;
  const char* stage;
  double Step::*value;
};
constexpr Real kReals[] = {{"sum of losses", at::kLoss, &Step::loss_numerator},
                           {"sum of weights", at::kWeights, &Step::loss_denominator},
                           {"gradient norm", at::kNorm, &Step::norm_raw},
                           {"clip limit", at::kSettings, &Step::clip_max},
                           {"clip factor", at::kClipped, &Step::clip_factor}};

struct Whole {
  const char* what;
  const char* stage;
  std::int64_t (*value)(const Step&);
};
constexpr Whole kWholes[] = {{"epoch", at::kSteps, [](const Step& step) { return step.position.epoch; }},
                             {"batch within the epoch", at::kSteps, [](const Step& step) { return step.position.batch_index; }},
                             {"micro-batches since the start", at::kSteps, [](const Step& step) { return step.position.micro_step; }},
                             {"optimizer steps since the start", at::kSteps, [](const Step& step) { return step.position.optimizer_step; }},
                             {"samples since the start", at::kSteps, [](const Step& step) { return step.position.samples_seen; }},
                             {"micro-batches of the window", at::kWeights, [](const Step& step) { return step.micro_batches; }},
                             {"samples counted", at::kWeights, [](const Step& step) { return step.samples_counted; }},
                             {"skipped", at::kUpdate, [](const Step& step) { return static_cast<std::int64_t>(step.skipped); }}};

struct Rate {
  const char* what;
  double GroupStep::*value;
};
constexpr Rate kRates[] = {{"learning rate", &GroupStep::learning_rate},
                           {"weight decay", &GroupStep::weight_decay},
                           {"beta1", &GroupStep::beta1},
                           {"beta2", &GroupStep::beta2},
                           {"epsilon", &GroupStep::epsilon},
                           {"momentum", &GroupStep::momentum}};

std::string on_rank(int rank) {
  return " on rank " + std::to_string(rank);
}

/// Place of a batch in a run, the same in a run that begins later.
struct BatchPlace {
  std::string purpose;
  std::int64_t step = -1, epoch = 0, pass = 0, batch = 0;
  int rank = 0;
  auto operator<=>(const BatchPlace&) const = default;
};
using Batches = std::map<BatchPlace, const Shard*>;

/// Numbers of an evaluation's passes depend on where the run began. They are counted within their epoch: from its last pass
/// where both runs reached the same end, from its first where both began at the start.
class PassNumbers {
 public:
  PassNumbers(const RunData& run, bool from_last) : from_last_(from_last) {
    for (const auto& row : run.shards) {
      const auto [entry, is_new] = bounds_.try_emplace({row.shard.purpose, row.shard.epoch}, row.shard.pass, row.shard.pass);
      entry->second.first = std::min(entry->second.first, row.shard.pass);
      entry->second.second = std::max(entry->second.second, row.shard.pass);
    }
  }
  std::int64_t of(const Shard& shard) const {
    const auto& [first, last] = bounds_.at({shard.purpose, shard.epoch});
    return from_last_ ? last - shard.pass : shard.pass - first;
  }

 private:
  std::map<std::pair<std::string, std::int64_t>, std::pair<std::int64_t, std::int64_t>> bounds_;
  bool from_last_;
};

/// Batches of a run that lie in the range; those of evaluations all.
Batches batches_of(const RunData& run, const RowRange& range, std::int64_t first_round) {
  const PassNumbers passes(run, range.to_the_end);
  Batches batches;
  for (const auto& row : run.shards) {
    const Shard& shard = row.shard;
    const bool training = shard.step >= 0;
    if (training && (shard.step < range.first || shard.step >= range.end)) continue;
    if (training && shard.step == range.first && shard.round < first_round) continue;
    const std::int64_t pass = training ? 0 : passes.of(shard);
    batches.try_emplace(BatchPlace{shard.purpose, training ? shard.step : -1, shard.epoch, pass, shard.global_batch, shard.rank}, &shard);
  }
  return batches;
}

/// Round of the window `range.first` that comes after those that lie before the range.
std::int64_t first_round(const RunData& reference, const RowRange& range) {
  if (range.done == 0) return 0;
  std::set<std::int64_t> rounds;
  for (const auto& row : reference.shards) {
    if (row.shard.step == range.first) rounds.insert(row.shard.round);
  }
  for (std::int64_t i = 0; i < range.done && !rounds.empty(); ++i) rounds.erase(rounds.begin());
  return rounds.empty() ? 0 : *rounds.begin();
}

std::string batch_name(const Shard& shard) {
  return shard.purpose + " batch " + std::to_string(shard.global_batch) + " of epoch " + std::to_string(shard.epoch);
}

void compare_batch(const Shard& shard, const Shard& reference, Findings& findings) {
  const std::string name = batch_name(shard);
  if (shard.ids != reference.ids || shard.real != reference.real || shard.filler != reference.filler) {
    findings.different(at::kIds, {}, shard.step, shard.rank,
                       name + " holds the samples " + some_ids(shard.ids) + ", in the straight run " + some_ids(reference.ids));
    return;  // Contents and random stream follow from it.
  }
  if (shard.stream_key != reference.stream_key) findings.different(at::kStream, {}, shard.step, shard.rank, name + " has another random stream");
  if (shard.digest != reference.digest) findings.different(at::kInputs, {}, shard.step, shard.rank, name + " has other contents");
}

using MetricPlace = std::tuple<std::string, std::int64_t, std::int64_t, std::int64_t, int>;  // name, step, epoch, occurrence, rank

std::map<MetricPlace, Metric> metrics_of(const recorder::Reader& reader, std::int64_t run) {
  std::map<MetricPlace, Metric> metrics;
  for (const auto& row : reader.metrics(run)) {
    MetricPlace place{row.metric.name + (row.metric.rule == "logged" ? "" : " of " + row.metric.purpose), row.metric.step, row.metric.epoch, 0,
                      row.rank};
    while (metrics.count(place) != 0) ++std::get<3>(place);
    metrics.emplace(place, row.metric);
  }
  return metrics;
}

}  // namespace

std::vector<std::string> unequal_tensors(const recorder::Reader& reader, std::int64_t run, std::int64_t reference, const std::string& stage,
                                         std::int64_t step, int rank) {
  const auto digests = [&](std::int64_t id) {
    std::map<std::string, Digest> result;
    visit_tensors(reader, id, stage, [&](const recorder::TensorRow& row) {
      if (row.trace.step == step && row.rank == rank) result[row.trace.name] = row.trace.digest;
      return row.trace.step <= step;
    });
    return result;
  };
  const std::map<std::string, Digest> of_run = digests(run), of_reference = digests(reference);
  std::vector<std::string> names;
  for (const auto& [name, digest] : of_run) {
    const auto other = of_reference.find(name);
    if (other != of_reference.end() && other->second != digest) names.push_back(name);
  }
  return names;
}

void RunRows::missing(Findings& findings, const char* stage, std::int64_t step, int rank, const std::string& what) const {
  if (run_.whole_record()) {
    findings.add({{}, Verdict::kDifferent, stage, {}, step, rank, 0, 0, what + " is not in " + run_name(run_)}, "missing");
  } else {
    findings.add({{}, Verdict::kInconclusive, stage, {}, step, rank, 0, 0, what + " is not in the record of " + run_name(run_) + ", which has holes"},
                 "missing");
  }
}

void RunRows::compare_shards(Findings& findings) {
  const std::int64_t round = first_round(reference_, range_);
  const Batches of_run = batches_of(run_, range_, round), of_reference = batches_of(reference_, range_, round);
  for (const auto& [place, shard] : of_run) {
    const auto other = of_reference.find(place);
    if (other != of_reference.end()) {
      ++counts_.batches;
      compare_batch(*shard, *other->second, findings);
    } else {
      findings.add({{},
                    Verdict::kDifferent,
                    at::kIds,
                    {},
                    shard->step,
                    shard->rank,
                    0,
                    0,
                    batch_name(*shard) + on_rank(shard->rank) + " is not one of the straight run's for this step"},
                   "extra");
    }
  }
  std::int64_t first_epoch = 0;  // Evaluations of it may lie before the range.
  for (const auto& [place, shard] : of_reference) {
    if (place.step == range_.first) first_epoch = place.epoch;
  }
  for (const auto& [place, shard] : of_reference) {
    const bool expected = place.step >= 0 || (range_.to_the_end && place.epoch > first_epoch);
    if (expected && of_run.count(place) == 0) missing(findings, at::kIds, shard->step, shard->rank, batch_name(*shard));
  }
}

void RunRows::compare_numbers(const Step& step, const Step& reference, int rank, Findings& findings) const {
  const auto add = [&](const char* stage, const char* what, double a, double b, const std::string& text) {
    findings.add({{}, Verdict::kDifferent, stage, {}, step.step, rank, a, b, text}, what);
  };
  for (const auto& [what, stage, value] : kWholes) {
    const std::int64_t a = value(step), b = value(reference);
    if (a == b) continue;
    add(stage, what, static_cast<double>(a), static_cast<double>(b),
        std::string(what) + on_rank(rank) + ": " + std::to_string(a) + ", in the straight run " + std::to_string(b));
  }
  for (const auto& [what, stage, value] : kReals) {
    const double a = step.*value, b = reference.*value;
    if (same_value(a, b)) continue;
    add(stage, what, a, b, std::string(what) + on_rank(rank) + ": " + exact_number(a) + ", in the straight run " + exact_number(b));
  }
}

void RunRows::compare_roots(const Step& step, const Step& reference, int rank, Findings& findings) {
  if (step.step == range_.first) {
    for (const Root& root : kBefore) {
      if (step.*root.digest == reference.*root.digest) continue;
      findings.add(
          {{}, Verdict::kDifferent, root.stage, {}, step.step, rank, 0, 0, std::string(root.what) + on_rank(rank) + " are not the straight run's"},
          root.what);
    }
  }
  for (const Root& root : kRoots) {
    if (step.*root.digest == reference.*root.digest) continue;
    if (!named_.insert(root.what + on_rank(rank)).second) continue;
    std::vector<std::string> names;
    if (root.row_stage != nullptr) names = unequal_tensors(reader_, run_.id(), reference_.id(), root.row_stage, step.step, rank);
    const std::string since = " are not the straight run's from step " + std::to_string(step.step) + " on";
    const std::string which = names.empty() ? "" : " (" + some_names(names, 3) + ")";
    findings.add(
        {{}, Verdict::kDifferent, root.stage, names.empty() ? "" : names.front(), step.step, rank, 0, 0, root.what + which + on_rank(rank) + since},
        root.what);
  }
}

void RunRows::compare_step(const Step& step, const Step& reference, int rank, Findings& findings) {
  ++counts_.steps;
  compare_numbers(step, reference, rank, findings);
  compare_roots(step, reference, rank, findings);
}

void RunRows::compare_steps(Findings& findings) {
  std::map<std::pair<std::int64_t, int>, const Step*> steps;
  for (const auto& [rank, step] : run_.steps) steps[{step.step, rank}] = &step;
  for (const auto& [rank, reference] : reference_.steps) {
    if (!in_range(reference.step)) continue;
    const auto step = steps.find({reference.step, rank});
    if (step == steps.end()) {
      missing(findings, at::kSteps, reference.step, rank, "step " + std::to_string(reference.step) + on_rank(rank));
    } else {
      compare_step(*step->second, reference, rank, findings);
    }
  }
}

void RunRows::compare_groups(Findings& findings) const {
  std::map<std::tuple<std::int64_t, std::int64_t, int>, const GroupStep*> groups;
  for (const auto& [rank, group] : reference_.group_steps) groups[{group.step, group.group, rank}] = &group;
  for (const auto& [rank, group] : run_.group_steps) {
    const auto other = groups.find({group.step, group.group, rank});
    if (!in_range(group.step) || other == groups.end()) continue;  // A step of one run alone is told as such.
    for (const auto& [what, value] : kRates) {
      const double a = group.*value, b = other->second->*value;
      if (same_value(a, b)) continue;
      findings.add({{},
                    Verdict::kDifferent,
                    what,
                    {},
                    group.step,
                    rank,
                    a,
                    b,
                    std::string(what) + " of parameter group " + std::to_string(group.group) + on_rank(rank) + ": " + exact_number(a) +
                        ", in the straight run " + exact_number(b)},
                   what + std::to_string(group.group));
    }
  }
}

std::set<std::string> RunRows::unlike_metrics() const {
  const std::map<MetricPlace, Metric> of_run = metrics_of(reader_, run_.id()), of_reference = metrics_of(reader_, reference_.id());
  std::set<std::string> names;
  for (const auto& [place, metric] : of_run) {
    const auto other = of_reference.find(place);
    if (metric.rule == "logged" && other != of_reference.end() && !same_value(metric.value, other->second.value)) names.insert(metric.name);
  }
  return names;
}

void RunRows::compare_metrics(Findings& findings, const std::set<std::string>& unrepeatable) {
  const std::map<MetricPlace, Metric> of_run = metrics_of(reader_, run_.id()), of_reference = metrics_of(reader_, reference_.id());
  const auto skip = [&](const Metric& metric) { return metric.rule == "logged" && unrepeatable.count(metric.name) != 0; };
  for (const auto& [place, metric] : of_run) {
    const auto other = of_reference.find(place);
    if (skip(metric) || other == of_reference.end()) continue;
    ++counts_.metrics;
    if (same_value(metric.value, other->second.value)) continue;
    findings.add(
        {{},
         Verdict::kDifferent,
         at::kMetric,
         metric.name,
         metric.step,
         std::get<4>(place),
         metric.value,
         other->second.value,
         "metric " + std::get<0>(place) + " is " + exact_number(metric.value) + ", in the straight run " + exact_number(other->second.value)},
        metric.rule);
  }
  for (const auto& [place, metric] : of_reference) {
    const bool expected = metric.step > range_.first && (metric.step < range_.end || range_.to_the_end);
    if (expected && !skip(metric) && of_run.count(place) == 0)
      missing(findings, at::kMetric, metric.step, std::get<4>(place), "metric " + std::get<0>(place));
  }
}

RowCounts RunRows::compare(Findings& findings, const std::set<std::string>& unrepeatable) {
  compare_shards(findings);
  compare_steps(findings);
  compare_groups(findings);
  compare_metrics(findings, unrepeatable);
  return counts_;
}

}  // namespace samerun::verify
