#include "samerun/core/stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

#include "samerun/core/error.h"

namespace samerun {
namespace {

TEST(CounterRandomTest, IsSplitMix64) {
  const std::vector<std::uint64_t> published = {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U,
                                                16408922859458223821U};
  for (std::size_t i = 0; i < published.size(); ++i) EXPECT_EQ(counter_random(1234567, i), published[i]);
}

TEST(StreamSeedTest, NoTwoIndicesShareASeed) {
  constexpr std::int64_t kNear = 500'000, kFar = 500'000;
  std::vector<std::uint32_t> seeds;
  for (std::int64_t i = 0; i < kNear; ++i) seeds.push_back(stream_seed({42, "train", 3, i}));
  for (std::int64_t i = 0; i < kFar; ++i) seeds.push_back(stream_seed({42, "train", 3, kNear + i * 8588}));
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end());
}

TEST(StreamSeedTest, TheLastIndicesAreDistinctFromTheFirst) {
  std::set<std::uint32_t> seeds;
  for (std::int64_t i = 0; i < 1000; ++i) {
    seeds.insert(stream_seed({1, "train", 0, i}));
    seeds.insert(stream_seed({1, "train", 0, 0xffffffff - i}));
  }
  EXPECT_EQ(seeds.size(), 2000U);
}

TEST(StreamSeedTest, EveryPartOfTheNameMatters) {
  int equal = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::uint32_t seed = stream_seed({7, "train", 2, i});
    EXPECT_EQ(seed, stream_seed({7, std::string("train"), 2, i}));
    for (const StreamName& other : {StreamName{8, "train", 2, i}, StreamName{7, "evaluation", 2, i}, StreamName{7, "train", 3, i}}) {
      equal += seed == stream_seed(other) ? 1 : 0;
    }
  }
  EXPECT_EQ(equal, 0);
}

TEST(StreamSeedTest, NeighboursShareNoPattern) {
  constexpr int kCount = 20'000;
  std::int64_t changed = 0;
  std::vector<int> ones(32, 0);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const std::uint32_t seed = stream_seed({7, "train", 0, i});
    changed += std::popcount(seed ^ stream_seed({7, "train", 0, i + 1}));
    for (std::size_t bit = 0; bit < 32; ++bit) ones[bit] += (seed >> bit) & 1;
  }
  EXPECT_NEAR(static_cast<double>(changed) / kCount, 16.0, 0.1);
  for (const int count : ones) EXPECT_NEAR(static_cast<double>(count) / kCount, 0.5, 0.02);
}

TEST(StreamSeedTest, IndexBeyond32BitsIsRefused) {
  for (const std::int64_t index : {std::int64_t{-1}, std::int64_t{1} << 32}) {
    try {
      stream_seed({1, "train", 0, index});
      FAIL() << index;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    }
  }
}

TEST(StreamKeyTest, EveryPartOfTheNameMatters) {
  const std::uint64_t key = stream_key({7, "train", 2, 5});
  EXPECT_EQ(key, stream_key({7, "train", 2, 5}));
  for (const StreamName& other : {StreamName{8, "train", 2, 5}, StreamName{7, "trai", 2, 5}, StreamName{7, "", 2, 5}, StreamName{7, "train", 3, 5},
                                  StreamName{7, "train", 2, 6}}) {
    EXPECT_NE(key, stream_key(other));
  }
  EXPECT_NE(stream_key({7, "train", 2, 5}), stream_key({7, "train", 5, 2}));
}

// A change of these numbers would make new runs incomparable with stored ones: then the record's version must change.
TEST(StreamTest, ValuesAreThoseOfEarlierVersions) {
  EXPECT_EQ(stream_key({42, "train", 1, 3}), 2936186303818942489U);
  EXPECT_EQ(stream_seed({42, "train", 1, 3}), 3666396101U);
}

}  // namespace
}  // namespace samerun
