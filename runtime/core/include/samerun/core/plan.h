#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace samerun {

/// What happens where the data do not divide by ranks and batch size.
enum class Uneven {
  kFiller,     ///< Default. The last batch is short; a rank without a batch gets a marked filler of weight 0.
  kDuplicate,  ///< Accelerate's even_batches=true: the epoch's first samples are repeated until all batches are full.
  kRagged,     ///< Accelerate's even_batches=false: ranks may have fewer or shorter batches.
  kDrop,       ///< drop_last: stop before the first round that is not complete on all ranks.
};

struct PlanOptions {
  std::int64_t size = 0;        ///< Samples in the dataset.
  std::int64_t batch_size = 1;  ///< Samples of a micro-batch (of one rank; of all ranks with split_batches).
  int world_size = 1;
  std::int64_t accumulation_steps = 1;  ///< Rounds of a window.
  bool shuffle = false;
  std::uint64_t data_seed = 0;
  Uneven uneven = Uneven::kFiller;
  bool split_batches = false;  ///< Cut each batch over the ranks; batch_size must be a multiple of world_size.
};

/// One micro-batch of one rank.
struct BatchRef {
  std::int64_t global_index = 0;  ///< Index within the epoch over all ranks: round * world_size + rank.
  std::vector<std::int64_t> ids;  ///< Dataset indices in row order; ids[real..] are padding that counts twice.
  std::int64_t real = 0;          ///< Rows that count; 0 for a filler.
  bool filler = false;            ///< True: rows are present only to keep ranks in step; weight 0.
};

/// Rounds [first_round, end_round) make up one optimizer step.
struct WindowRange {
  std::int64_t index = 0;  ///< Index of the window within the epoch.
  std::int64_t first_round = 0;
  std::int64_t end_round = 0;
};

/// The order of a dataset in one epoch: Fisher-Yates driven by a counter-based generator of (data_seed, epoch).
/// Identity when `shuffle` is false. A pure function; touches no global generator.
std::vector<std::int64_t> epoch_order(std::int64_t size, bool shuffle, std::uint64_t data_seed, std::int64_t epoch);

/// Which samples every rank sees, in which order. Global batch i belongs to rank i mod N in round i / N.
/// Immutable but for a cache of the last epoch's order. Threads: not concurrently on one object.
class Plan {
 public:
  /// Throws kInvalidArgument: negative size, batch_size < 1, world_size < 1, accumulation_steps < 1, or
  /// split_batches with a batch size that world_size does not divide. All calls below throw it for an epoch, round or
  /// rank that is not in the plan.
  explicit Plan(const PlanOptions& options);

  const PlanOptions& options() const { return options_; }
  std::int64_t rounds() const { return rounds_; }  ///< Rounds of an epoch.
  std::int64_t windows() const;                    ///< Optimizer steps of an epoch: ceil(rounds / accumulation_steps).
  WindowRange window(std::int64_t round) const;    ///< The window that holds `round`; cut at the epoch's end.
  /// The batch of `rank` in `round`; nullopt where a rank has none (kRagged only).
  std::optional<BatchRef> at(std::int64_t epoch, std::int64_t round, int rank) const;
  std::int64_t samples_in_window(std::int64_t round) const;  ///< Real samples over all ranks in round's window.

 private:
  PlanOptions options_;
  std::int64_t rounds_ = 0;
  mutable std::int64_t cached_epoch_ = -1;
  mutable std::vector<std::int64_t> cached_order_;
};

}  // namespace samerun
