#include <map>
#include <set>
#include <tuple>

#include "check.h"
#include "findings.h"
#include "numeric.h"
#include "sharding.h"
#include "tensor_rows.h"

// Replicated state is the same on every rank, at every step; what must differ between ranks does.
namespace samerun::verify {
namespace {

struct Replicated {
  const char* what;
  const char* one;        // of one tensor
  const char* stage;      // of the finding
  const char* row_stage;  // of the tensor rows that name the tensor; null where there are none
  Digest Step::*digest;
};
constexpr Replicated kReplicated[] = {{"reduced gradients", "reduced gradient", at::kReduced, stage::kRaw, &Step::root_raw},
                                      {"clipped gradients", "clipped gradient", at::kClipped, stage::kClipped, &Step::root_clipped},
                                      {"updates", "update", at::kUpdate, stage::kUpdate, &Step::root_update},
                                      {"parameters and buffers", "value", at::kState, stage::kState, &Step::root_after},
                                      {"optimizer state", "state", at::kState, nullptr, &Step::root_moments_after}};

struct ReplicatedNumber {
  const char* what;
  const char* stage;
  double Step::*value;
};
constexpr ReplicatedNumber kNumbers[] = {{"sum of losses", at::kLoss, &Step::loss_numerator},
                                         {"sum of weights", at::kWeights, &Step::loss_denominator},
                                         {"gradient norm", at::kNorm, &Step::norm_raw},
                                         {"clip limit", at::kSettings, &Step::clip_max},
                                         {"clip factor", at::kClipped, &Step::clip_factor}};

// A root says that something differs; the rows of the first such step say what. Later steps only repeat it.
class RootFinder {
 public:
  RootFinder(const PairRecord& pair, const Arm& arm, Findings& findings) : pair_(pair), arm_(arm), findings_(findings) {}

  void differs(const Replicated& what, const Step& step, int rank) {
    const bool is_new = named_.insert({what.what, rank}).second;
    if (!is_new) return;
    bool named = false;
    if (what.row_stage != nullptr) {
      for (const auto& row : rows_of(what.row_stage, step.step)) {
        if (row.rank != rank) continue;
        named = true;
        add(what, row.tensor, step.step, rank);
      }
    }
    if (!named) add(what, {}, step.step, rank);
  }

 private:
  const std::vector<TensorDifference>& rows_of(const char* row_stage, std::int64_t step) {
    const auto [entry, is_new] = rows_.try_emplace({row_stage, step});
    if (is_new) entry->second = rank_differences(pair_.reader, arm_.candidate.id(), row_stage, step);
    return entry->second;
  }

  void add(const Replicated& what, const std::string& tensor, std::int64_t step, int rank) {
    const std::string from = in_arm(arm_) + " on rank " + std::to_string(rank);
    const std::string since = " from rank 0's from step " + std::to_string(step) + " on";
    std::string text = what.what + from + " differ" + since;
    if (!tensor.empty()) text = "the " + std::string(what.one) + " of " + tensor + from + " differs" + since;
    if (what.stage == std::string(at::kState) && !tensor.empty() && parameters().count(tensor) == 0) {
      text += "; it is a buffer, such as running statistics, that each rank keeps for itself";
    }
    findings_.add({{}, Verdict::kDifferent, what.stage, tensor, step, rank, 0, 0, text}, what.what);
  }

  const std::map<std::string, TensorFact>& parameters() {
    if (parameters_.empty()) parameters_ = tensor_facts(pair_.reader, arm_.candidate.id(), stage::kRaw);
    return parameters_;
  }

  const PairRecord& pair_;
  const Arm& arm_;
  Findings& findings_;
  std::map<std::string, TensorFact> parameters_;
  std::set<std::pair<std::string, int>> named_;
  std::map<std::pair<std::string, std::int64_t>, std::vector<TensorDifference>> rows_;
};

std::int64_t compare_ranks(const PairRecord& pair, const Arm& arm, Findings& findings) {
  RootFinder finder(pair, arm, findings);
  const Step* first = nullptr;
  std::int64_t compared = 0;
  for (const auto& [rank, step] : arm.candidate.steps) {
    if (rank == 0) first = &step;
    if (rank == 0 || first == nullptr || first->step != step.step) continue;
    ++compared;
    for (const auto& what : kReplicated) {
      if (step.*what.digest != first->*what.digest) finder.differs(what, step, rank);
    }
    for (const auto& what : kNumbers) {
      const double a = step.*what.value, b = first->*what.value;
      if (same_value(a, b)) continue;
      findings.add(
          {{},
           Verdict::kDifferent,
           what.stage,
           {},
           step.step,
           rank,
           a,
           b,
           std::string(what.what) + in_arm(arm) + " on rank " + std::to_string(rank) + " is " + exact_number(a) + ", on rank 0 " + exact_number(b)},
          what.what);
    }
    if (step.skipped != first->skipped) {
      findings.different(at::kUpdate, {}, step.step, rank,
                         "rank " + std::to_string(rank) + (step.skipped ? " skipped" : " made") + " an update that rank 0 did not");
    }
  }
  return compared;
}

// Two batches of one pass never share a random stream: equal keys mean equal dropout masks.
void streams_differ(const Arm& arm, Findings& findings) {
  std::map<std::tuple<std::string, std::int64_t, std::uint64_t>, const recorder::ShardRow*> owners;
  for (const auto& row : arm.candidate.shards) {
    if (row.shard.filler || row.shard.stream_key == 0) continue;
    const auto [entry, is_new] = owners.try_emplace({row.shard.purpose, row.shard.pass, row.shard.stream_key}, &row);
    const Shard& other = entry->second->shard;
    if (is_new || other.global_batch == row.shard.global_batch) continue;
    findings.add(
        {{},
         Verdict::kDifferent,
         at::kStream,
         {},
         row.shard.step,
         row.rank,
         0,
         0,
         row.shard.purpose + " batches " + std::to_string(other.global_batch) + " (rank " + std::to_string(entry->second->rank) + ") and " +
             std::to_string(row.shard.global_batch) + " (rank " + std::to_string(row.rank) + ")" + in_arm(arm) + " draw from one random stream"},
        row.shard.purpose);
  }
}

// Other samples give other gradients. Ranks whose gradients agree in every tensor before the reduction did not both
// compute their own.
void local_gradients_differ(const PairRecord& pair, const Arm& arm, Findings& findings) {
  struct Running {
    std::int64_t micro_batch = -1;
    Digest digest;
    bool zero = true;
  };
  ZeroDigests zeros;
  std::map<std::int64_t, std::map<int, std::map<std::string, Running>>> last;  // step, rank, tensor
  visit_tensors(pair.reader, arm.candidate.id(), stage::kLocal, [&](const recorder::TensorRow& row) {
    auto& running = last[row.trace.step][row.rank][row.trace.name];
    if (row.trace.micro_batch >= running.micro_batch) running = {row.trace.micro_batch, row.trace.digest, zeros.is_zero(row.trace)};
    return true;
  });
  std::map<std::pair<std::int64_t, int>, std::vector<Digest>> inputs;  // step, rank
  for (const auto& row : arm.candidate.shards) {
    if (row.shard.step >= 0 && !row.shard.filler) inputs[{row.shard.step, row.rank}].push_back(row.shard.digest);
  }
  for (const auto& [step, ranks] : last) {
    for (auto a = ranks.begin(); a != ranks.end(); ++a) {
      for (auto b = std::next(a); b != ranks.end(); ++b) {
        const auto& inputs_a = inputs[{step, a->first}];
        const auto& inputs_b = inputs[{step, b->first}];
        if (inputs_a.empty() || inputs_b.empty() || inputs_a == inputs_b || a->second.size() != b->second.size()) continue;
        bool equal = true, zero = true;
        for (const auto& [tensor, running] : a->second) {
          const auto other = b->second.find(tensor);
          equal = equal && other != b->second.end() && other->second.digest == running.digest;
          zero = zero && running.zero;
        }
        if (!equal || zero) continue;
        findings.different(at::kLocal, {}, step, b->first,
                           "ranks " + std::to_string(a->first) + " and " + std::to_string(b->first) + in_arm(arm) +
                               " hold the same gradients before the reduction, of other samples");
      }
    }
  }
}

}  // namespace

CheckResult check_replicas(const PairRecord& pair) {
  Findings findings("replicas");
  std::int64_t native = 0;
  for (const Arm* arm : pair.arms()) {
    const auto compared = compare_ranks(pair, *arm, findings);
    if (arm == &pair.native) native = compared;
    streams_differ(*arm, findings);
    local_gradients_differ(pair, *arm, findings);
  }
  return findings.finish(pair.native.candidate.world() == 1 ? "one rank: nothing to compare"
                                                            : "ranks against rank 0, bitwise, " + count_of(native, "time"));
}

}  // namespace samerun::verify
