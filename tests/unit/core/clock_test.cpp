#include "samerun/core/clock.h"

#include <gtest/gtest.h>

namespace samerun {
namespace {

TEST(ClockTest, MonotonicTimeNeverGoesBack) {
  std::int64_t last = monotonic_now_ns();
  for (int i = 0; i < 10'000; ++i) {
    const std::int64_t now = monotonic_now_ns();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ClockTest, UtcIsInNanosecondsSince1970) {
  constexpr std::int64_t kStartOf2020 = 1'577'836'800;
  EXPECT_GT(utc_now_ns() / 1'000'000'000, kStartOf2020);
}

}  // namespace
}  // namespace samerun
