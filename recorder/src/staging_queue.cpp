#include "staging_queue.h"

#include <utility>

namespace samerun::recorder {
namespace {

// The parts of an item that can be large; the rest is bounded by the number of rows.
struct BulkBytes {
  std::size_t operator()(const TensorTrace& trace) const { return trace.sketch.size() * sizeof(double) + trace.shape.size() * sizeof(std::int64_t); }
  std::size_t operator()(const Shard& shard) const { return shard.ids.size() * sizeof(std::int64_t); }
  std::size_t operator()(const SampleValues& rows) const { return rows.ids.size() * sizeof(std::int64_t) + rows.values.size() * sizeof(double); }
  std::size_t operator()(const StampedEvent& stamped) const { return stamped.event.text.size(); }
  std::size_t operator()(const LockedRow& row) const { return row.text.size(); }
  std::size_t operator()(const SettingValue& setting) const { return setting.value.size(); }
  std::size_t operator()(const EnvironmentFact& fact) const { return fact.value.size(); }
  template <class Other>
  std::size_t operator()(const Other&) const {
    return 0;
  }
};

std::size_t bytes_of(const StagingItem& item) {
  return sizeof(StagingItem) + std::visit(BulkBytes{}, item);
}

}  // namespace

void StagingQueue::push(StagingItem item, Keep keep) {
  const std::size_t bytes = bytes_of(item);
  std::unique_lock lock(mutex_);
  if (keep == Keep::kIfRoom) {
    if (!refusing_ && !congested_ && full(bytes)) {
      congested_ = !emptied_.wait_for(lock, limits_.patience, [&] { return refusing_ || !full(bytes); });
    }
    congested_ = congested_ && full(bytes);
    if (refusing_ || congested_) {
      ++dropped_;
      return;
    }
  }
  items_.push_back(std::move(item));
  bytes_ += bytes;
  ++pushed_;
  wake_ = wake_ || keep == Keep::kAlwaysAndWake;
  if (items_.size() == 1 || items_.size() >= limits_.batch_rows || wake_) filled_.notify_one();
}

bool StagingQueue::take(std::vector<StagingItem>& batch) {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [&] { return stopped_ || !items_.empty(); });
  const auto ready = [&] { return stopped_ || wake_ || items_.size() >= limits_.batch_rows || 2 * bytes_ > limits_.bytes; };
  filled_.wait_for(lock, limits_.period, ready);
  batch.swap(items_);
  bytes_ = 0;
  wake_ = false;
  taken_ = pushed_;
  emptied_.notify_all();
  return !batch.empty() || !stopped_;
}

void StagingQueue::batch_done() {
  const std::lock_guard lock(mutex_);
  finished_ = taken_;
  done_.notify_all();
}

void StagingQueue::refuse_rows(std::size_t lost) {
  const std::lock_guard lock(mutex_);
  refusing_ = true;
  dropped_ += static_cast<std::int64_t>(lost);
  emptied_.notify_all();
}

void StagingQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  filled_.notify_all();
}

bool StagingQueue::wait_until_done(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = pushed_;
  if (!items_.empty()) {
    wake_ = true;
    filled_.notify_one();
  }
  return done_.wait_for(lock, limit, [&] { return finished_ >= ticket; });
}

std::int64_t StagingQueue::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace samerun::recorder
