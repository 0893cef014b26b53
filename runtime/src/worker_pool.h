#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "samerun/core/digest.h"
#include "samerun/runtime/loader.h"

namespace samerun::detail {

/// A batch made ready by a worker, with what the record needs of it.
struct Fetched {
  Batch batch;
  Digest contents;  ///< Digest of data and target.
  Digest samples;   ///< Sum of the digests of its counted samples; zero where not asked.
};

/// Makes items 0..count-1 on threads and hands them out in order: what the program sees does not depend on how many
/// threads there are. At most `workers * prefetch` items are in flight. With 0 workers an item is made when asked for.
class WorkerPool {
 public:
  using Make = std::function<Fetched(std::int64_t index)>;
  WorkerPool(int workers, int prefetch, std::int64_t count, Make make);
  ~WorkerPool();  ///< Stops early where the loop was left; bounded by one item a worker.
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// The next item in order; rethrows what its worker threw.
  Fetched next();

 private:
  struct Item {
    bool ready = false;
    Fetched value;
    std::exception_ptr error;
  };
  void work();

  Make make_;
  std::int64_t count_, in_flight_;
  std::int64_t started_ = 0, taken_ = 0;
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  ///< items_[i] is item taken_ + i.
  std::vector<std::thread> threads_;
};

}  // namespace samerun::detail
