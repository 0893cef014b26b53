#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "samerun/core/sketch.h"
#include "samerun/core/stream.h"

namespace samerun {
namespace {

constexpr double kUnit = 0x1p-53;

template <class T>
std::vector<T> random_values(std::size_t size, std::uint64_t key) {
  std::vector<T> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<T>(static_cast<std::int64_t>(counter_random(key, i))) * T(0x1p-63);
  return values;
}

/// Long doubles with compensation: plain ones are off by 9 units themselves at 10^6 squares of floats, for these have few
/// bits and round alike.
template <class T>
long double exact_norm(const std::vector<T>& values) {
  long double sum = 0, error = 0;
  for (const T value : values) {
    const long double square = static_cast<long double>(value) * static_cast<long double>(value);
    const long double total = sum + square;
    error += sum >= square ? (sum - total) + square : (square - total) + sum;
    sum = total;
  }
  return std::sqrt(sum + error);
}

template <class T>
void expect_accurate(std::size_t size, double limit) {
  const std::vector<T> values = random_values<T>(size, size + 1);
  const long double exact = exact_norm(values);
  EXPECT_LE(std::abs(static_cast<double>(norm2(values) - exact)), limit * kUnit * static_cast<double>(exact)) << size;
}

TEST(NormTest, IsWithinAFewRoundingsOfExtendedPrecision) {
  for (const std::size_t size : {1U, 2U, 15U, 16U, 17U, 1023U, 1024U, 1025U, 3000U, 65'536U, 1'000'003U}) {
    expect_accurate<float>(size, 4);
    expect_accurate<double>(size, 4);
  }
}

// The worst case of plain summation, where each rounding goes the same way.
TEST(NormTest, EqualValuesDoNotAddUpTheirRoundings) {
  constexpr std::size_t kSize = 10'000'000;
  const std::vector<float> values(kSize, 0.1F);
  const long double exact = std::sqrt(static_cast<long double>(kSize)) * static_cast<long double>(0.1F);
  EXPECT_LE(std::abs(static_cast<double>(norm2(values) - exact)), 64 * kUnit * static_cast<double>(exact));
}

TEST(NormTest, OfNothingIsZero) {
  EXPECT_EQ(norm2(std::span<const float>()), 0);
  EXPECT_EQ(norm2(std::span<const double>()), 0);
}

TEST(NormTest, FloatsNeitherOverflowNorVanish) {
  const std::vector<float> large(2000, 3e38F), small(2000, 1e-40F);
  EXPECT_NEAR(norm2(large) / (std::sqrt(2000.0) * static_cast<double>(3e38F)), 1, 1e-12);
  EXPECT_NEAR(norm2(small) / (std::sqrt(2000.0) * static_cast<double>(1e-40F)), 1, 1e-12);
}

TEST(NormTest, InfinityAndNanShow) {
  for (const std::size_t at : {std::size_t{0}, std::size_t{1500}, std::size_t{2999}}) {
    std::vector<double> values(3000, 1);
    values[at] = -std::numeric_limits<double>::infinity();
    EXPECT_EQ(norm2(values), std::numeric_limits<double>::infinity());
    values[at] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(std::isnan(norm2(values)));
    std::vector<float> narrow(3000, 1);
    narrow[at] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(norm2(narrow)));
  }
}

}  // namespace
}  // namespace samerun
