#include "samerun/core/plan.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "samerun/core/error.h"
#include "samerun/core/stream.h"

namespace samerun {
namespace {

__extension__ typedef unsigned __int128 Wide;

constexpr std::int64_t kMost = std::int64_t{1} << 62;  ///< Keeps every sum of two row counts within 64 bits.

/// Rows of one rank's micro-batch. A split batch cut over the ranks has the rows that batches of this size would have.
std::int64_t rows_of_batch(const PlanOptions& options) {
  return options.split_batches ? options.batch_size / options.world_size : options.batch_size;
}

std::int64_t rows_of_round(const PlanOptions& options) {
  return rows_of_batch(options) * options.world_size;
}

std::int64_t divide_up(std::int64_t value, std::int64_t by) {
  return value / by + (value % by == 0 ? 0 : 1);
}

[[noreturn]] void refuse(const char* message, const char* key, std::int64_t value) {
  throw Error(ErrorCode::kInvalidArgument, message, {{key, std::to_string(value)}});
}

void check(const PlanOptions& options) {
  if (options.size < 0 || options.size > kMost) refuse("A plan needs a dataset size from 0 to 2^62", "size", options.size);
  if (options.batch_size < 1) refuse("A plan needs a batch size of at least 1", "batch_size", options.batch_size);
  if (options.world_size < 1) refuse("A plan needs a world size of at least 1", "world_size", options.world_size);
  if (options.accumulation_steps < 1) refuse("A window needs at least 1 round", "accumulation_steps", options.accumulation_steps);
  if (options.batch_size > kMost / options.world_size) refuse("The batches of one round have too many rows", "batch_size", options.batch_size);
  if (options.split_batches && options.batch_size % options.world_size != 0) {
    throw Error(ErrorCode::kInvalidArgument, "split_batches needs a batch size that the world size divides",
                {{"batch_size", std::to_string(options.batch_size)}, {"world_size", std::to_string(options.world_size)}});
  }
}

/// A number in [0, bound) without bias (Lemire 2019): the high half of a product, redrawn where the low half falls into
/// the part that `bound` does not divide.
std::uint64_t draw_below(std::uint64_t bound, std::uint64_t key, std::uint64_t& counter) {
  Wide product = Wide{counter_random(key, counter++)} * bound;
  if (static_cast<std::uint64_t>(product) < bound) {
    const std::uint64_t least = (0 - bound) % bound;
    while (static_cast<std::uint64_t>(product) < least) product = Wide{counter_random(key, counter++)} * bound;
  }
  return static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

std::vector<std::int64_t> epoch_order(std::int64_t size, bool shuffle, std::uint64_t data_seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (!shuffle) return order;
  const std::uint64_t key = stream_key({data_seed, "epoch order", epoch, 0});
  std::uint64_t counter = 0;
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[draw_below(left, key, counter)]);
  return order;
}

Plan::Plan(const PlanOptions& options) : options_(options) {
  check(options);
  const std::int64_t rows = rows_of_round(options);
  rounds_ = options.uneven == Uneven::kDrop ? options.size / rows : divide_up(options.size, rows);
}

std::int64_t Plan::windows() const {
  return divide_up(rounds_, options_.accumulation_steps);
}

WindowRange Plan::window(std::int64_t round) const {
  if (round < 0 || round >= rounds_) refuse("This round is not in the epoch", "round", round);
  const std::int64_t length = options_.accumulation_steps;
  const std::int64_t first = round - round % length;
  return {round / length, first, first + std::min(length, rounds_ - first)};
}

std::int64_t Plan::samples_in_window(std::int64_t round) const {
  const WindowRange range = window(round);
  const std::int64_t rows = rows_of_round(options_);
  return std::min(range.end_round * rows, options_.size) - range.first_round * rows;
}

std::optional<BatchRef> Plan::at(std::int64_t epoch, std::int64_t round, int rank) const {
  if (epoch < 0) refuse("Epochs count from 0", "epoch", epoch);
  if (round < 0 || round >= rounds_) refuse("This round is not in the epoch", "round", round);
  if (rank < 0 || rank >= options_.world_size) refuse("This rank is not in the plan", "rank", rank);
  if (options_.shuffle && cached_epoch_ != epoch) {
    cached_order_ = epoch_order(options_.size, true, options_.data_seed, epoch);
    cached_epoch_ = epoch;
  }
  const std::int64_t rows = rows_of_batch(options_);

  BatchRef batch;
  batch.global_index = round * options_.world_size + rank;
  const std::int64_t first = batch.global_index * rows;
  batch.real = std::clamp<std::int64_t>(options_.size - first, 0, rows);
  if (batch.real == 0 && options_.uneven == Uneven::kRagged) return std::nullopt;
  batch.filler = batch.real == 0 && options_.uneven == Uneven::kFiller;

  std::int64_t length = batch.real;
  if (batch.filler) length = std::min(rows, options_.size);
  if (options_.uneven == Uneven::kDuplicate) length = rows;
  // Padding carries on from rank to rank through the rows of the epoch's first round, over and over.
  const std::int64_t first_round_rows = std::min(options_.size, rows_of_round(options_));
  const std::int64_t padded_before = batch.filler ? 0 : std::max<std::int64_t>(first - options_.size, 0);
  batch.ids.reserve(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t row = i < batch.real ? first + i : (padded_before + i - batch.real) % first_round_rows;
    batch.ids.push_back(options_.shuffle ? cached_order_[static_cast<std::size_t>(row)] : row);
  }
  return batch;
}

}  // namespace samerun
