#include "worker_pool.h"

#include <utility>

namespace samerun::detail {

WorkerPool::WorkerPool(int workers, int prefetch, std::int64_t count, Make make)
    : make_(std::move(make)), count_(count), in_flight_(static_cast<std::int64_t>(workers) * std::max(prefetch, 1)) {
  for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void WorkerPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || started_ >= count_ || started_ - taken_ < in_flight_; });
    if (stop_ || started_ >= count_) return;
    const auto index = started_++;
    items_.emplace_back();
    lock.unlock();
    Fetched value;
    std::exception_ptr error;
    try {
      value = make_(index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    auto& item = items_[static_cast<std::size_t>(index - taken_)];
    item.value = std::move(value);
    item.error = error;
    item.ready = true;
    changed_.notify_all();
  }
}

Fetched WorkerPool::next() {
  if (threads_.empty()) return make_(taken_++);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !items_.empty() && items_.front().ready; });
  auto item = std::move(items_.front());
  items_.pop_front();
  ++taken_;
  lock.unlock();
  changed_.notify_all();
  if (item.error) std::rethrow_exception(item.error);
  return std::move(item.value);
}

}  // namespace samerun::detail
