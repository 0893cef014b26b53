#include <algorithm>
#include <map>
#include <tuple>

#include "numeric.h"
#include "sharding.h"

namespace samerun::verify {
namespace {

using recorder::ShardRow;

auto key_of(const ShardRow& row) {
  return std::tie(row.shard.purpose, row.shard.pass, row.shard.global_batch);
}

std::string batch_name(const Arm& arm, const ShardRow& row) {
  return row.shard.purpose + " pass " + std::to_string(row.shard.pass) + " batch " + std::to_string(row.shard.global_batch) + in_arm(arm);
}

void found(Findings& findings, const char* stage, const ShardRow& row, std::string text) {
  findings.add({{}, Verdict::kDifferent, stage, {}, row.shard.step, row.rank, 0, 0, std::move(text)}, row.shard.purpose);
}

// Ids that one side has and the other has not, as two short lists.
std::string id_difference(std::vector<std::int64_t> d, std::vector<std::int64_t> r) {
  std::sort(d.begin(), d.end());
  std::sort(r.begin(), r.end());
  std::vector<std::int64_t> only_d, only_r;
  std::set_difference(d.begin(), d.end(), r.begin(), r.end(), std::back_inserter(only_d));
  std::set_difference(r.begin(), r.end(), d.begin(), d.end(), std::back_inserter(only_r));
  if (only_d.empty() && only_r.empty()) return "the same samples in another order";
  return "candidate alone: " + (only_d.empty() ? "none" : some_ids(only_d)) + "; reference alone: " + (only_r.empty() ? "none" : some_ids(only_r));
}

void compare_batch(const PairRecord& pair, const Arm& arm, const ShardRow& d, const ShardRow& r, Findings& findings) {
  const Shard& of_d = d.shard;
  const Shard& of_r = r.shard;
  if (of_d.ids != of_r.ids || of_d.real != of_r.real || of_d.filler != of_r.filler) {
    const std::string what = of_d.ids != of_r.ids ? id_difference(of_d.ids, of_r.ids)
                                                  : "rows that count: " + std::to_string(of_d.real) + " against " + std::to_string(of_r.real);
    found(findings, at::kIds, d, batch_name(arm, d) + " holds other samples than the reference's (" + what + ")");
    return;
  }
  if (of_d.step != of_r.step || of_d.epoch != of_r.epoch) {
    found(findings, at::kIds, d,
          batch_name(arm, d) + " contributes to step " + std::to_string(of_d.step) + " of epoch " + std::to_string(of_d.epoch) +
              ", in the reference to step " + std::to_string(of_r.step) + " of epoch " + std::to_string(of_r.epoch));
  }
  if (arm.reference.replays(arm.candidate.world()) && of_d.rank != of_r.rank) {
    found(findings, at::kIds, d,
          batch_name(arm, d) + " went to rank " + std::to_string(of_d.rank) + ", by plan to rank " + std::to_string(of_r.rank));
  }
  const bool digests = of_d.digest != Digest{} && of_r.digest != Digest{};
  if (digests && of_d.digest != of_r.digest) {
    found(findings, at::kInputs, d, batch_name(arm, d) + " holds the same samples with other contents");
  }
  if (pair.same_micro_batches && of_d.stream_key != of_r.stream_key) {
    found(findings, at::kStream, d, batch_name(arm, d) + " draws from another random stream than the reference's");
  }
}

// `row` has no counterpart in `other`. In a record with holes that proves nothing; a filler keeps ranks in step and
// means nothing to a reference that replays no ranks.
void alone(const Arm& arm, const ShardRow& row, bool in_candidate, Findings& findings) {
  const RunData& other = in_candidate ? arm.reference : arm.candidate;
  if (row.shard.filler && !arm.reference.replays(arm.candidate.world())) return;
  const std::string text = batch_name(arm, row) + (in_candidate ? " is not in the reference" : " was not handed out by the candidate");
  if (other.whole_record()) {
    Evidence evidence{{}, Verdict::kDifferent, at::kIds, {}, row.shard.step, in_candidate ? row.rank : row.shard.rank, 0, 0, text};
    findings.add(std::move(evidence), row.shard.purpose + (in_candidate ? " alone" : " lost"));
  } else {
    findings.inconclusive(at::kIds, {}, row.shard.step, text + ", but the record of " + run_name(other) + " has holes");
  }
}

void compare_by_batch(const PairRecord& pair, const Arm& arm, Findings& findings, ShardCounts& counts) {
  const auto& of_d = arm.candidate.shards;
  const auto& of_r = arm.reference.shards;
  std::size_t d = 0, r = 0;
  while (d < of_d.size() || r < of_r.size()) {
    if (r == of_r.size() || (d < of_d.size() && key_of(of_d[d]) < key_of(of_r[r]))) {
      alone(arm, of_d[d++], true, findings);
    } else if (d == of_d.size() || key_of(of_r[r]) < key_of(of_d[d])) {
      alone(arm, of_r[r++], false, findings);
    } else {
      const ShardRow& first = of_d[d];
      compare_batch(pair, arm, first, of_r[r], findings);
      ++counts.batches;
      counts.samples += first.shard.real;
      for (++d; d < of_d.size() && key_of(of_d[d]) == key_of(first); ++d) {
        found(findings, at::kIds, of_d[d], batch_name(arm, first) + " was handed out again, to rank " + std::to_string(of_d[d].rank));
      }
      ++r;
    }
  }
}

using Group = std::tuple<std::string, std::int64_t, std::int64_t>;  // purpose, pass, step (-1 outside training)

std::map<Group, std::vector<std::int64_t>> ids_by_step(const RunData& run) {
  std::map<Group, std::vector<std::int64_t>> ids;
  for (const auto& row : run.shards) {
    if (row.shard.filler) continue;
    auto& group = ids[{row.shard.purpose, row.shard.pass, row.shard.step}];
    const auto real = std::clamp<std::int64_t>(row.shard.real, 0, static_cast<std::int64_t>(row.shard.ids.size()));
    group.insert(group.end(), row.shard.ids.begin(), row.shard.ids.begin() + real);
  }
  for (auto& [group, list] : ids) std::sort(list.begin(), list.end());
  return ids;
}

void compare_by_step(const Arm& arm, Findings& findings, ShardCounts& counts) {
  const auto of_d = ids_by_step(arm.candidate);
  auto of_r = ids_by_step(arm.reference);
  for (const auto& [group, ids] : of_d) of_r.try_emplace(group);
  for (const auto& [group, ids] : of_r) {
    const auto other = of_d.find(group);
    const auto& [purpose, pass, step] = group;
    const std::vector<std::int64_t> none;
    const auto& mine = other == of_d.end() ? none : other->second;
    counts.samples += static_cast<std::int64_t>(ids.size());
    ++counts.batches;
    if (mine == ids) continue;
    const bool proves = arm.candidate.whole_record() && arm.reference.whole_record();
    const std::string text =
        purpose + " pass " + std::to_string(pass) + in_arm(arm) + " reads other samples than the reference (" + id_difference(mine, ids) + ")";
    if (proves) {
      findings.add({{}, Verdict::kDifferent, at::kIds, {}, step, -1, 0, 0, text}, purpose);
    } else {
      findings.inconclusive(at::kIds, {}, step, text + ", but the record has holes");
    }
  }
}

// Where a run read each sample of a purpose once, the sum of its content digests is that of the data set.
void compare_datasets(const Arm& arm, Findings& findings) {
  for (const auto& purpose : arm.reference.purposes()) {
    const auto total = [&purpose](const RunData& run) {
      std::pair<std::int64_t, Digest> sum{};
      for (const auto& row : run.datasets) {
        if (row.dataset.purpose != purpose) continue;
        sum.first += row.dataset.rows;
        sum.second = add(sum.second, row.dataset.digest);
      }
      return sum;
    };
    const auto d = total(arm.candidate), r = total(arm.reference);
    for (const auto& row : arm.candidate.datasets) {
      if (row.dataset.purpose != purpose || row.dataset.size == arm.reference.dataset_size(purpose)) continue;
      findings.add({{},
                    Verdict::kDifferent,
                    at::kIds,
                    {},
                    -1,
                    row.rank,
                    0,
                    0,
                    "the " + purpose + " data" + in_arm(arm) + " have " + count_of(row.dataset.size, "sample") + ", the reference's " +
                        std::to_string(arm.reference.dataset_size(purpose))},
                   purpose + " size");
    }
    // other samples have other contents: the ids have said so already
    if (findings.any_different() || d.second == Digest{} || r.second == Digest{}) continue;
    if (d.first == r.first && d.second != r.second) {
      findings.add({{}, Verdict::kDifferent, at::kInputs, {}, -1, -1, 0, 0, "the contents of the " + purpose + " data" + in_arm(arm) + " differ"},
                   purpose + " data");
    }
  }
}

}  // namespace

void compare_shards(const PairRecord& pair, const Arm& arm, Findings& findings, ShardCounts& counts) {
  if (arm.candidate.shards.empty() || arm.reference.shards.empty()) {
    findings.inconclusive(at::kIds, {}, -1,
                          "the record holds no sample ids of " + run_name(arm.candidate.shards.empty() ? arm.candidate : arm.reference));
    return;
  }
  if (pair.same_micro_batches) {
    compare_by_batch(pair, arm, findings, counts);
  } else {
    compare_by_step(arm, findings, counts);
  }
  compare_datasets(arm, findings);
}

}  // namespace samerun::verify
