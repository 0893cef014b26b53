#include "local_gradients.h"

#include <algorithm>
#include <tuple>

#include "numeric.h"
#include "sharding.h"
#include "tensor_rows.h"

namespace samerun::verify {
namespace {

struct Local {
  Digest digest;
  bool zero = false;
};
using Place = std::pair<int, std::int64_t>;                            // virtual rank, micro-batch of that rank
using Key = std::tuple<std::int64_t, std::string, int, std::int64_t>;  // step, tensor, virtual rank, micro-batch

struct LocalRows {
  std::map<Key, Local> rows;
  std::map<std::int64_t, std::set<Place>> places;  // that were recorded at all, by step
};

// Each rank of the candidate is its own virtual rank; the reference's one process names the rank that it stands for.
LocalRows local_rows(const recorder::Reader& reader, const RunData& run) {
  LocalRows local;
  const bool own = run.world() > 1;
  ZeroDigests zeros;
  visit_tensors(reader, run.id(), stage::kLocal, [&](const recorder::TensorRow& row) {
    const TensorTrace& trace = row.trace;
    const int rank = own ? row.rank : trace.rank;
    local.rows.try_emplace({trace.step, trace.name, rank, trace.micro_batch}, Local{trace.digest, zeros.is_zero(trace)});
    local.places[trace.step].insert({rank, trace.micro_batch});
    return true;
  });
  return local;
}

// Micro-batches that a rank was handed for a step; fillers come last and carry no weight.
std::set<Place> planned_places(const RunData& candidate, std::int64_t step) {
  std::map<int, std::int64_t> count;
  std::set<Place> places;
  for (const auto& row : candidate.shards) {
    if (row.shard.step == step && !row.shard.filler) places.insert({row.rank, count[row.rank]++});
  }
  return places;
}

class Comparison {
 public:
  Comparison(const Arm& arm, const LocalRows& d, const LocalRows& r, Findings& findings) : arm_(arm), d_(d), r_(r), findings_(findings) {}

  std::map<std::int64_t, LocalStep> run() {
    for (const auto& [key, local] : d_.rows) {
      const auto other = r_.rows.find(key);
      other == r_.rows.end() ? lone(key, local, true) : both(key, local, other->second);
    }
    for (const auto& [key, local] : r_.rows) {
      if (d_.rows.count(key) == 0) lone(key, local, false);
    }
    for (auto& [step, local] : steps_) local.complete = complete(step);
    return std::move(steps_);
  }

 private:
  std::string where(const Key& key) const {
    return std::get<1>(key) + in_arm(arm_) + " on rank " + std::to_string(std::get<2>(key)) + " after micro-batch " +
           std::to_string(std::get<3>(key));
  }

  // A running gradient that differs once differs to the end of the window: the earliest micro-batch is the one to name.
  void differs(const Key& key, const std::string& text) {
    const auto& [step, tensor, rank, micro_batch] = key;
    if (!told_.insert({step, tensor, rank}).second) return;
    findings_.different(at::kLocal, tensor, step, rank, where(key) + text);
  }

  void both(const Key& key, const Local& d, const Local& r) {
    LocalStep& step = steps_[std::get<0>(key)];
    step.tensors.insert(std::get<1>(key));
    ++step.compared;
    if (d.digest == r.digest) {
      ++step.equal;
    } else {
      differs(key, " is not the reference's, bit for bit");
    }
  }

  // A gradient that was never touched may be absent on one side and zeros on the other: the same thing.
  void lone(const Key& key, const Local& local, bool in_candidate) {
    LocalStep& step = steps_[std::get<0>(key)];
    if (local.zero) {
      step.tensors.insert(std::get<1>(key));
      return;
    }
    const RunData& other = in_candidate ? arm_.reference : arm_.candidate;
    if (other.whole_record()) {
      differs(key, in_candidate ? " has a gradient that the reference has not" : " has no gradient; the reference has one");
    } else {
      findings_.inconclusive(at::kLocal, std::get<1>(key), std::get<0>(key),
                             where(key) + " is in one record only, and " + run_name(other) + " has holes");
    }
  }

  bool complete(std::int64_t step) const {
    if (!arm_.candidate.whole_record() || !arm_.reference.whole_record()) return false;
    const auto planned = planned_places(arm_.candidate, step);
    const auto recorded = [&](const LocalRows& rows) {
      const auto places = rows.places.find(step);
      return places != rows.places.end() && std::includes(places->second.begin(), places->second.end(), planned.begin(), planned.end());
    };
    return !planned.empty() && recorded(d_) && recorded(r_);
  }

  const Arm& arm_;
  const LocalRows& d_;
  const LocalRows& r_;
  Findings& findings_;
  std::map<std::int64_t, LocalStep> steps_;
  std::set<std::tuple<std::int64_t, std::string, int>> told_;
};

}  // namespace

std::map<std::int64_t, LocalStep> compare_local_gradients(const PairRecord& pair, const Arm& arm, Findings& findings) {
  const LocalRows d = local_rows(pair.reader, arm.candidate);
  const LocalRows r = local_rows(pair.reader, arm.reference);
  return Comparison(arm, d, r, findings).run();
}

}  // namespace samerun::verify
