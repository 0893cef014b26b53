#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "samerun/core/plan.h"

namespace samerun {
namespace {

using Ids = std::vector<std::int64_t>;

Ids counted(std::int64_t size) {
  Ids ids(static_cast<std::size_t>(size));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return ids;
}

TEST(EpochOrderTest, IsThePlainOrderWithoutShuffle) {
  EXPECT_EQ(epoch_order(5, false, 1, 2), counted(5));
  EXPECT_EQ(epoch_order(0, false, 1, 2), Ids{});
}

TEST(EpochOrderTest, ShuffledOrderHoldsEverySampleOnce) {
  for (const std::int64_t size : {0, 1, 2, 3, 100, 4097}) {
    Ids order = epoch_order(size, true, 11, 4);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, counted(size));
  }
}

TEST(EpochOrderTest, IsAFunctionOfSeedAndEpochAlone) {
  const Ids order = epoch_order(1000, true, 11, 4);
  EXPECT_EQ(order, epoch_order(1000, true, 11, 4));
  EXPECT_NE(order, epoch_order(1000, true, 11, 5));
  EXPECT_NE(order, epoch_order(1000, true, 12, 4));
  EXPECT_NE(order, counted(1000));
}

TEST(EpochOrderTest, AllOrdersAreEquallyLikely) {
  constexpr int kDraws = 24'000;
  std::map<Ids, int> seen;
  for (int epoch = 0; epoch < kDraws; ++epoch) ++seen[epoch_order(4, true, 3, epoch)];
  ASSERT_EQ(seen.size(), 24U);
  double chi_square = 0;
  for (const auto& [order, count] : seen) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 49.7) << "23 degrees of freedom: exceeded by chance once in 1,000";
}

// Every sample visits every quarter of a longer order equally often: catches a draw with the wrong bound.
TEST(EpochOrderTest, EverySampleReachesEveryPlace) {
  constexpr std::int64_t kSize = 64;
  constexpr int kDraws = 8'000;
  std::vector<std::array<int, 4>> visits(kSize);
  for (int epoch = 0; epoch < kDraws; ++epoch) {
    const Ids order = epoch_order(kSize, true, 5, epoch);
    for (std::size_t place = 0; place < order.size(); ++place) ++visits[static_cast<std::size_t>(order[place])][place / 16];
  }
  for (const auto& quarters : visits) {
    for (const int count : quarters) EXPECT_NEAR(count, kDraws / 4, 200);  // 5 standard deviations
  }
}

// A change of this order would make new runs incomparable with stored ones and break the resumption of old checkpoints.
TEST(EpochOrderTest, OrderIsThatOfEarlierVersions) {
  EXPECT_EQ(epoch_order(10, true, 42, 1), (Ids{3, 4, 1, 0, 5, 2, 6, 8, 7, 9}));
}

}  // namespace
}  // namespace samerun
