#include <algorithm>
#include <cmath>
#include <set>

#include "check.h"
#include "findings.h"
#include "numeric.h"
#include "tensor_rows.h"

// What was decided, what was not, and what the pair never put to the test.
namespace samerun::verify {
namespace {

void trained_tensors(const PairRecord& pair, Decided& decided, Findings& findings) {
  const auto d = tensor_facts(pair.reader, pair.native.candidate.id(), stage::kRaw);
  const auto r = tensor_facts(pair.reader, pair.native.reference.id(), stage::kRaw);
  for (const auto& [tensor, fact] : d) decided.trained.insert(tensor);
  for (const auto& [tensor, fact] : r) decided.trained.insert(tensor);
  if (d.empty() || r.empty()) return;
  for (const auto& tensor : decided.trained) {
    if (d.count(tensor) == 1 && r.count(tensor) == 1) continue;
    const RunData& without = d.count(tensor) == 0 ? pair.native.candidate : pair.native.reference;
    if (!without.whole_record()) continue;
    findings.different(at::kReduced, tensor, 0, -1, tensor + " has no reduced gradient in " + run_name(without) + ", and one in the other run");
  }
}

std::string reason_for(const PairRecord& pair, const Decided& decided, const std::string& tensor) {
  const auto found = decided.undecided_reason.lower_bound(tensor + ": ");
  if (found != decided.undecided_reason.end() && found->rfind(tensor + ": ", 0) == 0) return *found;
  if (pair.whole_reference || decided.by_lock.count(tensor) != 0) return tensor + ": no float64 gradient with the power to tell";
  return tensor + ": not compared";
}

/// Settings and exits stand there for each rank: where they do not, "no difference" says nothing.
void absent_ranks(const RunData& run, Findings& findings) {
  std::set<int> set_up, started;
  for (const auto& row : run.settings) set_up.insert(row.rank);
  for (const auto& row : run.ranks) started.insert(row.rank);
  for (int rank = 0; rank < run.world(); ++rank) {
    if (set_up.count(rank) == 1 && started.count(rank) == 1) continue;
    const std::string what = started.count(rank) == 0 ? "nothing of the start of rank " : "no settings of rank ";
    findings.inconclusive({}, {}, -1, "the record of " + run_name(run) + " holds " + what + std::to_string(rank));
    return;
  }
}

void holes(const PairRecord& pair, Findings& findings) {
  for (const Arm* arm : pair.arms()) {
    for (const RunData* run : {&arm->candidate, &arm->reference}) {
      if (run->dropped > 0) {
        findings.inconclusive({}, {}, -1, "the record of " + run_name(*run) + " lost " + count_of(run->dropped, "row"));
      } else if (!run->run.complete) {
        findings.inconclusive({}, {}, -1, "the record of " + run_name(*run) + " is not complete: the run ended as \"" + run->run.status + "\"");
      } else {
        absent_ranks(*run, findings);
      }
    }
  }
}

bool clip_was_exercised(const RunData& run, std::string& why) {
  double largest = 0, limit = -1;
  bool near_only = false;
  for (const Step* step : run.first_rank_steps()) {
    if (step->clip_max < 0) continue;
    limit = std::max(limit, step->clip_max);
    largest = std::max(largest, step->norm_raw);
    if (!(step->norm_raw > step->clip_max)) continue;
    if (std::abs(step->norm_raw / step->clip_max - 1) >= 1e-3) return true;
    near_only = true;
  }
  if (limit < 0) return true;  // not asked for
  why = near_only ? "clipping: no norm was further than 0.1 % above the limit"
                  : "clipping: never active (limit " + number(limit) + ", largest norm " + number(largest) + ")";
  return false;
}

struct TrainShards {
  std::set<std::int64_t> sizes;  // real samples of the micro-batches that count
  bool filler = false, padded = false;
  std::int64_t passes = 0;
};

TrainShards train_shards(const RunData& run) {
  TrainShards train;
  for (const auto& row : run.shards) {
    if (row.shard.step < 0) continue;
    train.passes = std::max(train.passes, row.shard.pass + 1);
    train.filler = train.filler || row.shard.filler;
    if (row.shard.filler) continue;
    train.sizes.insert(row.shard.real);
    train.padded = train.padded || row.shard.real < static_cast<std::int64_t>(row.shard.ids.size());
  }
  return train;
}

// Custom weights do not stand in the record; their sum does, and it varies where they do.
bool weights_vary(const RunData& run) {
  std::set<double> per_sample;
  for (const Step* step : run.first_rank_steps()) {
    if (step->samples_counted > 0) per_sample.insert(step->loss_denominator / static_cast<double>(step->samples_counted));
  }
  return per_sample.size() > 1;
}

}  // namespace

CheckResult check_coverage(const PairRecord& pair, Decided& decided, Coverage& coverage) {
  Findings findings("coverage");
  holes(pair, findings);
  trained_tensors(pair, decided, findings);
  coverage.tensors = static_cast<std::int64_t>(decided.trained.size());
  coverage.steps = decided.steps;
  coverage.shadow_steps = decided.shadow_steps;
  coverage.locked_steps = static_cast<std::int64_t>(decided.locked_steps.size());
  for (const auto& tensor : decided.trained) {
    const bool by_shadow = decided.by_shadow.count(tensor) != 0;
    const bool update = by_shadow || decided.without_update.count(tensor) == 0;
    const bool native = pair.whole_reference || (decided.by_lock.count(tensor) != 0 && update);
    if (native && (by_shadow || decided.by_lock64.count(tensor) != 0)) {
      ++coverage.decided;
    } else {
      coverage.undecided.push_back(reason_for(pair, decided, tensor));
    }
  }
  for (const auto& reason : coverage.undecided)
    findings.inconclusive(at::kReduced, reason.substr(0, reason.rfind(": ")), -1, "not decided, " + reason);
  if (coverage.tensors == 0) findings.inconclusive(at::kReduced, {}, -1, "the record holds no reduced gradient");
  return findings.finish(std::to_string(coverage.decided) + " of " + count_of(coverage.tensors, "tensor") + " decided, over " +
                         count_of(coverage.steps, "step"));
}

std::vector<std::string> not_exercised(const PairRecord& pair) {
  std::vector<std::string> missing;
  const RunData& run = pair.native.candidate;
  std::string why;
  if (!clip_was_exercised(run, why)) missing.push_back(why);
  const TrainShards train = train_shards(run);
  if (train.sizes.size() <= 1 && !weights_vary(run))
    missing.push_back("weights: every micro-batch counts the same, so a mean of means would not show");
  if (run.world() > 1 && !train.filler && !train.padded && train.sizes.size() <= 1) {
    missing.push_back("uneven end: the samples divide by ranks and batch size, no batch was short");
  }
  if (train.passes < 2) missing.push_back("epochs: fewer than two, so no new order was drawn");
  if (run.world() == 1) missing.push_back("ranks: the candidate has one");
  return missing;
}

}  // namespace samerun::verify
