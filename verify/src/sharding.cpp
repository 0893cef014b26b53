#include "sharding.h"

#include <algorithm>
#include <map>
#include <span>

#include "check.h"
#include "numeric.h"

namespace samerun::verify {
namespace {

using recorder::ShardRow;

// Two orders of fewer samples than this may be equal by chance.
constexpr std::size_t kShortestOrder = 16;

struct Pass {
  std::string purpose;
  std::int64_t pass = 0;
  std::span<const ShardRow> rows;  // by global batch
};

std::vector<Pass> passes_of(const RunData& run) {
  std::vector<Pass> passes;
  const std::span<const ShardRow> rows = run.shards;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    const Shard& first = rows[begin].shard;
    while (end < rows.size() && rows[end].shard.purpose == first.purpose && rows[end].shard.pass == first.pass) ++end;
    passes.push_back({first.purpose, first.pass, rows.subspan(begin, end - begin)});
  }
  return passes;
}

std::span<const std::int64_t> real_ids(const Shard& shard) {
  const auto real = std::clamp<std::int64_t>(shard.real, 0, static_cast<std::int64_t>(shard.ids.size()));
  return std::span<const std::int64_t>(shard.ids).first(static_cast<std::size_t>(real));
}

struct Seen {
  std::vector<std::int64_t> twice, missing, unknown;
  std::int64_t samples = 0, batches = 0, longest = 0, doubled = 0;
  std::int64_t step = -1;  // of the first sample that came again
  int rank = -1, first_rank = -1;
};

Seen count_pass(const Pass& pass, std::int64_t size) {
  Seen seen;
  std::vector<int> owner(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)), -1);
  for (const auto& row : pass.rows) {
    if (row.shard.filler) continue;
    ++seen.batches;
    seen.longest = std::max(seen.longest, static_cast<std::int64_t>(row.shard.ids.size()));
    seen.doubled += static_cast<std::int64_t>(row.shard.ids.size()) - static_cast<std::int64_t>(real_ids(row.shard).size());
    for (const auto id : real_ids(row.shard)) {
      if (id < 0 || id >= size) {
        seen.unknown.push_back(id);
        continue;
      }
      int& by = owner[static_cast<std::size_t>(id)];
      if (by >= 0) {
        if (seen.twice.empty()) seen.step = row.shard.step, seen.rank = row.rank, seen.first_rank = by;
        seen.twice.push_back(id);
      } else {
        ++seen.samples;
        by = row.rank;
      }
    }
  }
  for (std::size_t id = 0; id < owner.size(); ++id) {
    if (owner[id] < 0) seen.missing.push_back(static_cast<std::int64_t>(id));
  }
  return seen;
}

// A program may leave a loop early, and then whole batches are absent. When every batch came and samples are still
// missing, the loader lost them.
bool every_batch_came(const Seen& seen, std::int64_t size) {
  return seen.longest > 0 && seen.batches >= (size + seen.longest - 1) / seen.longest;
}

void judge_pass(const Arm& arm, const Pass& pass, std::int64_t size, Findings& findings, ShardCounts& counts) {
  const Seen seen = count_pass(pass, size);
  const std::string where = pass.purpose + " pass " + std::to_string(pass.pass) + in_arm(arm) + ": ";
  if (!seen.twice.empty()) {
    const std::string text = where + count_of(static_cast<std::int64_t>(seen.twice.size()), "repetition") + " of samples that had been read (" +
                             some_ids(seen.twice) + "), the first by rank " + std::to_string(seen.rank) + " after rank " +
                             std::to_string(seen.first_rank);
    findings.add({{}, Verdict::kDifferent, at::kIds, {}, seen.step, seen.rank, static_cast<double>(seen.twice.size()), 0, text},
                 pass.purpose + " twice");
  }
  if (!seen.unknown.empty()) {
    findings.add({{},
                  Verdict::kDifferent,
                  at::kIds,
                  {},
                  -1,
                  -1,
                  static_cast<double>(seen.unknown.size()),
                  0,
                  where + "samples outside the data set of " + std::to_string(size) + " (" + some_ids(seen.unknown) + ")"},
                 pass.purpose + " unknown");
  }
  const bool may_drop = arm.candidate.setting(pass.purpose, "uneven") == "drop";
  if (!seen.missing.empty() && every_batch_came(seen, size) && !may_drop && arm.candidate.whole_record()) {
    findings.add({{},
                  Verdict::kDifferent,
                  at::kIds,
                  {},
                  pass.rows.back().shard.step,
                  -1,
                  static_cast<double>(seen.missing.size()),
                  0,
                  where + count_of(static_cast<std::int64_t>(seen.missing.size()), "sample") + " never read (" + some_ids(seen.missing) + ")"},
                 pass.purpose + " missing");
  }
  if (seen.doubled > 0 && pass.pass == 0) {
    counts.notes += "; " + pass.purpose + " pads with " + count_of(seen.doubled, "row") + " a pass that count twice";
  }
}

std::vector<std::int64_t> order_of(const Pass& pass) {
  std::vector<std::int64_t> order;
  for (const auto& row : pass.rows) {
    if (!row.shard.filler) order.insert(order.end(), real_ids(row.shard).begin(), real_ids(row.shard).end());
  }
  return order;
}

// Training shuffles anew in each epoch; the same order again means that the epoch never reached the sampler.
void judge_order(const Arm& arm, const std::vector<Pass>& passes, Findings& findings) {
  const std::string shuffle = arm.candidate.setting("train", "shuffle");
  if (shuffle != "true" && shuffle != "1") return;
  std::vector<std::int64_t> first;
  for (const auto& pass : passes) {
    if (pass.purpose != "train") continue;
    const auto order = order_of(pass);
    if (pass.pass == 0) {
      first = order;
      continue;
    }
    const auto length = std::min(first.size(), order.size());
    if (length < kShortestOrder || !std::equal(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(length), first.begin())) continue;
    findings.add(
        {{},
         Verdict::kDifferent,
         at::kIds,
         {},
         pass.rows.front().shard.step,
         -1,
         0,
         0,
         "train pass " + std::to_string(pass.pass) + in_arm(arm) + " reads the samples in the order of pass 0 again, though shuffling is on"},
        "order");
  }
}

}  // namespace

std::string in_arm(const Arm& arm) {
  return arm.name == "native" ? "" : " of the " + arm.name + " run";
}

std::string some_ids(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (std::size_t i = 0; i < ids.size() && i < 5; ++i) text += (i == 0 ? "" : ", ") + std::to_string(ids[i]);
  return text + (ids.size() > 5 ? ", ..." : "");
}

void check_passes(const Arm& arm, Findings& findings, ShardCounts& counts) {
  const auto passes = passes_of(arm.candidate);
  for (const auto& pass : passes) {
    std::int64_t size = arm.candidate.dataset_size(pass.purpose);
    if (size < 0) {
      for (const auto& row : pass.rows) {
        for (const auto id : row.shard.ids) size = std::max(size, id + 1);
      }
    }
    judge_pass(arm, pass, size, findings, counts);
  }
  counts.passes += static_cast<std::int64_t>(passes.size());
  judge_order(arm, passes, findings);
}

CheckResult check_sharding(const PairRecord& pair) {
  Findings findings("sharding");
  ShardCounts native;
  for (const Arm* arm : pair.arms()) {
    ShardCounts other;
    ShardCounts& counts = arm == &pair.native ? native : other;
    check_passes(*arm, findings, counts);
    compare_shards(pair, *arm, findings, counts);
  }
  return findings.finish(count_of(native.samples, "sample") + ", " + std::to_string(native.batches) +
                         (pair.same_micro_batches ? " batches, " : " steps, ") + std::to_string(native.passes) + " passes, id by id" + native.notes);
}

}  // namespace samerun::verify
