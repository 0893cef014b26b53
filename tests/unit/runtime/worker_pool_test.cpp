#include "worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace samerun::detail {
namespace {

Fetched item(std::int64_t index) {
  Fetched fetched;
  fetched.batch.ids = {index};
  return fetched;
}

TEST(WorkerPoolTest, TheOrderIsThatOfTheIndexWhateverTheNumberOfWorkers) {
  for (const int workers : {0, 1, 3}) {
    WorkerPool pool(workers, 2, 100, item);
    for (std::int64_t i = 0; i < 100; ++i) EXPECT_EQ(pool.next().batch.ids.at(0), i) << workers << " workers";
  }
}

TEST(WorkerPoolTest, AnExceptionComesOutAtItsOwnPosition) {
  for (const int workers : {0, 1, 3}) {
    WorkerPool pool(workers, 2, 10, [](std::int64_t index) {
      if (index == 4) throw std::runtime_error("sample 4 is broken");
      return item(index);
    });
    for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(pool.next().batch.ids.at(0), i);
    try {
      pool.next();
      ADD_FAILURE() << "item 4 came out with " << workers << " workers";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "sample 4 is broken");
    }
    EXPECT_EQ(pool.next().batch.ids.at(0), 5) << "what follows is not lost";
  }
}

TEST(WorkerPoolTest, LeavingEarlyEndsTheWorkers) {
  std::atomic<int> running{0};
  for (const int taken : {0, 1, 5}) {
    {
      WorkerPool pool(3, 4, 1'000'000, [&](std::int64_t index) {
        ++running;
        auto made = item(index);
        --running;
        return made;
      });
      for (int i = 0; i < taken; ++i) pool.next();
    }
    EXPECT_EQ(running, 0);
  }
}

TEST(WorkerPoolTest, NoMoreItemsAreMadeAheadThanWorkersTimesPrefetch) {
  std::atomic<std::int64_t> made{0};
  std::atomic<std::int64_t> taken{0};
  std::atomic<bool> too_many{false};
  WorkerPool pool(3, 2, 200, [&](std::int64_t index) {
    if (++made - taken > 6 + 1) too_many = true;  // one more: an item counts as taken just after it was handed over
    return item(index);
  });
  for (std::int64_t i = 0; i < 200; ++i) {
    pool.next();
    ++taken;
  }
  EXPECT_FALSE(too_many);
  EXPECT_EQ(made, 200);
}

TEST(WorkerPoolTest, APoolWithNothingToDoEnds) {
  WorkerPool pool(3, 2, 0, item);
}

}  // namespace
}  // namespace samerun::detail
