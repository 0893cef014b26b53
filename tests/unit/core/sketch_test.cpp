#include "samerun/core/sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "samerun/core/digest.h"
#include "samerun/core/error.h"
#include "samerun/core/stream.h"

namespace samerun {
namespace {

constexpr double kUnit = 0x1p-53;

/// Uniform in [-1, 1).
template <class T>
std::vector<T> random_values(std::size_t size, std::uint64_t key) {
  std::vector<T> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<T>(static_cast<std::int64_t>(counter_random(key, i))) * T(0x1p-63);
  return values;
}

/// Whole numbers, whose sums are exact in float64: sketches of them must agree to the last bit.
template <class T>
std::vector<T> whole_numbers(std::size_t size, std::uint64_t key) {
  std::vector<T> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<T>(static_cast<int>(counter_random(key, i) % 2001) - 1000);
  return values;
}

template <class T>
std::vector<double> sketch_whole(const std::vector<T>& values, std::string_view name) {
  return sketch(std::span<const T>(values), name, 0, std::ssize(values));
}

/// Sum of the sketches of the parts that `cuts` make.
template <class T>
std::vector<double> sketch_of_shards(const std::vector<T>& values, std::string_view name, std::vector<std::size_t> cuts) {
  std::vector<double> total(kSketchSize);
  cuts.push_back(values.size());
  std::size_t begin = 0;
  for (const std::size_t end : cuts) {
    const auto part = sketch(std::span<const T>(values).subspan(begin, end - begin), name, static_cast<std::int64_t>(begin), std::ssize(values));
    for (std::size_t i = 0; i < part.size(); ++i) total[i] += part[i];
    begin = end;
  }
  return total;
}

struct Place {
  std::size_t bucket;
  double sign;
};

/// Where the elements of one block go, found by sketching 1, 2, ..., 256 in their places.
std::vector<Place> places_of_block(std::string_view name, std::int64_t block, std::int64_t numel) {
  std::vector<double> ramp(static_cast<std::size_t>(std::min(kSketchSize, numel - block * kSketchSize)));
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<double>(i + 1);
  const auto buckets = sketch(std::span<const double>(ramp), name, block * kSketchSize, numel);
  std::vector<Place> places(ramp.size(), Place{0, 0});
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    if (buckets[bucket] != 0) places[static_cast<std::size_t>(std::abs(buckets[bucket])) - 1] = {bucket, std::copysign(1, buckets[bucket])};
  }
  return places;
}

TEST(SketchTest, SmallTensorsAreKeptWhole) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{255}, std::size_t{256}}) {
    const std::vector<float> values = random_values<float>(size, 1);
    EXPECT_EQ(sketch_whole(values, "bias"), std::vector<double>(values.begin(), values.end()));
  }
  EXPECT_EQ(sketch_of_shards(whole_numbers<double>(256, 2), "bias", {100, 101}), sketch_whole(whole_numbers<double>(256, 2), "bias"));
}

TEST(SketchTest, LargerTensorsHave256Buckets) {
  EXPECT_EQ(sketch_whole(std::vector<float>(257, 1), "weight").size(), 256U);
  EXPECT_EQ(sketch_whole(std::vector<double>(100'000, 1), "weight").size(), 256U);
}

TEST(SketchTest, ElementsOfABlockAreRotatedAndNeverCollide) {
  constexpr std::int64_t kNumel = 256 * 40 + 17;
  for (std::int64_t block = 0; block <= 40; ++block) {
    const std::vector<Place> places = places_of_block("weight", block, kNumel);
    for (std::size_t i = 0; i < places.size(); ++i) {
      ASSERT_NE(places[i].sign, 0) << "element lost: " << block << " " << i;
      ASSERT_EQ(places[i].bucket, (i + places[0].bucket) % 256);
    }
  }
}

TEST(SketchTest, RotationsAndSignsAreSpreadEvenly) {
  constexpr std::int64_t kBlocks = 4096;
  std::vector<int> rotations(256);
  double signs = 0, neighbours = 0;
  for (std::int64_t block = 0; block < kBlocks; ++block) {
    const std::vector<Place> places = places_of_block("weight", block, kBlocks * 256);
    ++rotations[places[0].bucket];
    for (std::size_t i = 0; i + 1 < places.size(); ++i) {
      signs += places[i].sign;
      neighbours += places[i].sign * places[i + 1].sign;
    }
  }
  const auto [least, most] = std::minmax_element(rotations.begin(), rotations.end());
  EXPECT_GE(*least, 2);
  EXPECT_LE(*most, 36);  // 16 expected
  EXPECT_LT(std::abs(signs), 5 * std::sqrt(kBlocks * 255.0));
  EXPECT_LT(std::abs(neighbours), 5 * std::sqrt(kBlocks * 255.0));
}

TEST(SketchTest, TensorsOfOtherNamesAreHashedOtherwise) {
  const std::vector<float> values = random_values<float>(5000, 3);
  EXPECT_EQ(sketch_whole(values, "layer1.weight"), sketch_whole(values, "layer1.weight"));
  EXPECT_NE(sketch_whole(values, "layer1.weight"), sketch_whole(values, "layer2.weight"));
}

TEST(SketchTest, FloatAndDoubleInputAgree) {
  const std::vector<float> values = whole_numbers<float>(10'001, 4);
  EXPECT_EQ(sketch_whole(values, "w"), sketch_whole(std::vector<double>(values.begin(), values.end()), "w"));
}

TEST(SketchTest, SketchOfADifferenceIsTheDifferenceOfSketches) {
  const std::vector<double> x = whole_numbers<double>(50'000, 5), y = whole_numbers<double>(50'000, 6);
  std::vector<double> difference(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) difference[i] = x[i] - y[i];
  const auto of_x = sketch_whole(x, "w"), of_y = sketch_whole(y, "w"), of_difference = sketch_whole(difference, "w");
  for (std::size_t i = 0; i < of_x.size(); ++i) ASSERT_EQ(of_x[i] - of_y[i], of_difference[i]);
  EXPECT_EQ(sketch_distance(of_x, of_y), norm2(of_difference));
}

TEST(SketchTest, ShardsAddUpWhereverTheyAreCut) {
  const std::vector<float> narrow = whole_numbers<float>(10'000, 7);
  const std::vector<double> wide = whole_numbers<double>(10'000, 8);
  for (const std::vector<std::size_t>& cuts :
       std::vector<std::vector<std::size_t>>{{5000}, {1, 2, 3}, {255, 256, 257}, {0, 9999}, {100, 300, 4096}}) {
    EXPECT_EQ(sketch_of_shards(narrow, "w", cuts), sketch_whole(narrow, "w"));
    EXPECT_EQ(sketch_of_shards(wide, "w", cuts), sketch_whole(wide, "w"));
  }
}

TEST(SketchTest, ShardsOfAMillionDoublesAddUpWithinFourRoundings) {
  const std::vector<double> values = random_values<double>(1'000'000, 9);
  const std::vector<double> whole = sketch_whole(values, "w");
  const double distance = sketch_distance(sketch_of_shards(values, "w", {250'000, 500'001, 750'123}), whole);
  EXPECT_LE(distance, 4 * kUnit * norm2(whole));
}

TEST(SketchTest, CompensatedBucketsAreThoseOfExtendedPrecision) {
  constexpr std::int64_t kNumel = 1'000'000;
  const std::vector<double> values = random_values<double>(kNumel, 10);
  std::vector<long double> exact(256);
  for (std::int64_t block = 0; block * 256 < kNumel; ++block) {
    const std::vector<Place> places = places_of_block("w", block, kNumel);
    for (std::size_t i = 0; i < places.size(); ++i) {
      exact[places[i].bucket] += static_cast<long double>(places[i].sign * values[static_cast<std::size_t>(block) * 256 + i]);
    }
  }
  const std::vector<double> buckets = sketch_whole(values, "w");
  for (std::size_t i = 0; i < 256; ++i) {
    // One rounding of the result; 2^-58 for the reference's own roundings.
    ASSERT_LE(std::abs(static_cast<double>(buckets[i] - exact[i])), kUnit * std::abs(buckets[i]) + 0x1p-53) << i;
  }
}

// Without compensation each 0.5 between the two large values would be lost.
TEST(SketchTest, LargeValuesThatCancelLeaveTheSmallOnes) {
  constexpr std::size_t kBlocks = 1000;
  std::vector<double> values(256 * kBlocks, 0.5);
  const Place place = places_of_block("w", 0, std::ssize(values))[0];
  const std::vector<Place> last = places_of_block("w", kBlocks - 1, std::ssize(values));
  const auto partner = static_cast<std::size_t>(
      std::find_if(last.begin(), last.end(), [&](const Place& other) { return other.bucket == place.bucket; }) - last.begin());
  values[0] = values[256 * (kBlocks - 1) + partner] = 0;
  const double small = sketch_whole(values, "w")[place.bucket];
  ASSERT_NE(small, 0);
  values[0] = place.sign * 0x1p60;
  values[256 * (kBlocks - 1) + partner] = -last[partner].sign * 0x1p60;
  EXPECT_EQ(sketch_whole(values, "w")[place.bucket], small);
}

TEST(SketchTest, NormOfTheSketchEstimatesTheNorm) {
  std::vector<double> deviations;
  double sum = 0;
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    const std::size_t size = 1000 + counter_random(12, trial) % 60'000;
    const std::vector<float> values = random_values<float>(size, 100 + trial);
    const double ratio = norm2(sketch_whole(values, "layer" + std::to_string(trial))) / norm2(values);
    sum += ratio - 1;
    deviations.push_back(std::abs(ratio - 1));
  }
  std::sort(deviations.begin(), deviations.end());
  EXPECT_LE(deviations[284], 0.10);
  EXPECT_LE(std::abs(sum / 300), 0.01);
}

// Tensors of one value and of few values are the hard cases of poor hashes.
TEST(SketchTest, EstimateHoldsForConstantAndSparseTensors) {
  for (int trial = 0; trial < 50; ++trial) {
    const std::string name = "layer" + std::to_string(trial);
    const std::vector<double> constant(256 * 100, 0.25);
    EXPECT_NEAR(norm2(sketch_whole(constant, name)) / norm2(constant), 1, 0.2);
    std::vector<double> sparse(256 * 100);
    for (std::size_t i = 0; i < 50; ++i) sparse[i * 512] = 1;
    EXPECT_NEAR(norm2(sketch_whole(sparse, name)) / norm2(sparse), 1, 0.35);
  }
}

TEST(SketchTest, NotFiniteElementsSpoilTheirBucketOnly) {
  constexpr std::size_t kNumel = 5000;
  const std::size_t bucket = places_of_block("w", 3, kNumel)[10].bucket;
  for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    std::vector<double> wide(kNumel, 1);
    std::vector<float> narrow(kNumel, 1);
    wide[3 * 256 + 10] = value;
    narrow[3 * 256 + 10] = static_cast<float>(value);
    for (const std::vector<double>& buckets : {sketch_whole(wide, "w"), sketch_whole(narrow, "w")}) {
      EXPECT_EQ(std::isnan(value), std::isnan(buckets[bucket]));
      for (std::size_t i = 0; i < 256; ++i) EXPECT_EQ(std::isfinite(buckets[i]), i != bucket) << i;
    }
  }
}

TEST(SketchTest, PartOutsideTheTensorIsRefused) {
  const std::vector<float> values(300, 1);
  for (const auto& [offset, numel] : {std::pair<std::int64_t, std::int64_t>{0, 299}, {1, 300}, {-1, 1000}, {2000, 1000}, {0, -1}}) {
    try {
      sketch(std::span<const float>(values), "w", offset, numel);
      ADD_FAILURE() << offset << " of " << numel;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    }
  }
}

TEST(SketchTest, DistanceOfSketchesOfOtherLengthsIsRefused) {
  const std::vector<double> a(256), b(255);
  EXPECT_EQ(sketch_distance(a, a), 0);
  EXPECT_EQ(sketch_distance(std::vector<double>{3, 0}, std::vector<double>{0, 4}), 5);
  EXPECT_THROW(sketch_distance(a, b), Error);
}

// Stored sketches are compared with new ones: a change of this value means that the record's version must change.
TEST(SketchTest, ValuesAreThoseOfEarlierVersions) {
  const std::vector<double> buckets = sketch_whole(whole_numbers<float>(10'000, 13), "layer.weight");
  EXPECT_EQ(to_hex(digest_bytes(buckets.data(), buckets.size() * sizeof(double))), "d758b0a6f58827eb5d8474775edb6635");
}

}  // namespace
}  // namespace samerun
