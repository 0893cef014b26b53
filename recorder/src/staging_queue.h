#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <variant>
#include <vector>

#include "samerun/core/event.h"

namespace samerun::recorder {

struct StampedEvent {
  RunEvent event;
  std::int64_t utc_ns = 0;
};

/// What the training thread hands to the writer thread.
using StagingItem = std::variant<RankStart, SettingValue, EnvironmentFact, DatasetSeen, Shard, Step, GroupStep, TensorTrace, LockedRow, Metric,
                                 SampleValues, Phase, RunPhase, CheckpointCommitted, StateLeaf, StampedEvent, RunEnd>;

/// Bounded by rows and by bytes. A full queue holds its producer up once, for `patience`, then counts what it must
/// refuse until there is room again: training is slowed by at most that once a congestion. Threads: any.
class StagingQueue {
 public:
  struct Limits {
    std::size_t rows = 65'536;
    std::size_t bytes = std::size_t{128} << 20;
    std::size_t batch_rows = 2'000;  ///< take() returns at once when so many wait.
    std::chrono::milliseconds patience{50};
    std::chrono::milliseconds period{1'000};  ///< take() returns what there is at least so often.
  };
  enum class Keep { kIfRoom, kAlways, kAlwaysAndWake };

  explicit StagingQueue(const Limits& limits) : limits_(limits) {}

  void push(StagingItem item, Keep keep);
  /// Moves all waiting items to `batch` (empty on entry). False: stopped, and nothing is left.
  bool take(std::vector<StagingItem>& batch);
  /// The batch last taken is committed (or lost for good).
  void batch_done();
  /// From now on only items kept always are accepted; the others count as dropped, as do `lost` rows that were taken.
  void refuse_rows(std::size_t lost);
  void stop();
  /// Has all that was pushed before the call taken at once, and waits until it is done. False: not within `limit`.
  bool wait_until_done(std::chrono::milliseconds limit);
  std::int64_t dropped() const;

 private:
  bool full(std::size_t bytes) const { return items_.size() >= limits_.rows || (!items_.empty() && bytes_ + bytes > limits_.bytes); }

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable filled_, emptied_, done_;
  std::vector<StagingItem> items_;
  std::size_t bytes_ = 0;
  std::uint64_t pushed_ = 0, taken_ = 0, finished_ = 0;
  std::int64_t dropped_ = 0;
  bool congested_ = false, refusing_ = false, stopped_ = false, wake_ = false;
};

}  // namespace samerun::recorder
