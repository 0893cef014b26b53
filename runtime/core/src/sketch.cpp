#include "samerun/core/sketch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "samerun/core/digest.h"
#include "samerun/core/error.h"
#include "samerun/core/stream.h"

namespace samerun {
namespace {

constexpr std::size_t kBlock = kSketchSize;
constexpr std::size_t kLanes = 16;
constexpr std::size_t kNormBlock = 1024;

/// Loops over these have constant lengths, so that the compiler vectorises them at -O2 as well.
template <class T>
using Block = std::array<T, kBlock>;

// A function over one block, compiled for several vector widths; the processor at hand picks. All give the same bits: no
// sum changes its order, and this library is built without fused multiply-add. (Sanitizers do not go with the picking.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SAMERUN_ALL_WIDTHS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SAMERUN_ALL_WIDTHS
#endif

// --- Signs ---------------------------------------------------------------------------------------------------------

template <class T>
constexpr std::array<std::array<T, 4>, 16> sign_table() {
  std::array<std::array<T, 4>, 16> table{};
  for (std::size_t bits = 0; bits < 16; ++bits) {
    for (std::size_t i = 0; i < 4; ++i) table[bits][i] = (bits >> i) & 1 ? T{-1} : T{1};
  }
  return table;
}

/// Signs of one block, from 4 x 64 hash bits; four at a time from a table, which beats shifting bit by bit.
template <class T>
void draw_signs(std::uint64_t block_key, Block<T>& signs) {
  static constexpr auto kTable = sign_table<T>();
  for (std::size_t word = 0; word < 4; ++word) {
    std::uint64_t bits = counter_random(block_key, 1 + word);
    for (std::size_t i = 0; i < 64; i += 4, bits >>= 4) {
      std::copy_n(kTable[bits & 15].data(), 4, signs.data() + 64 * word + i);
    }
  }
}

// --- Sums ----------------------------------------------------------------------------------------------------------

SAMERUN_ALL_WIDTHS void add_block(double* __restrict sums, const float* __restrict values, const float* __restrict signs) {
  for (std::size_t i = 0; i < kBlock; ++i) sums[i] += static_cast<double>(values[i] * signs[i]);
}

/// Adds `value` to `sum` and the exact rounding error of that (TwoSum, Knuth) to `error`.
inline void add_exactly(double& sum, double& error, double value) {
  const double total = sum + value;
  const double part = total - sum;
  error += (sum - (total - part)) + (value - part);
  sum = total;
}

SAMERUN_ALL_WIDTHS void add_block_exactly(double* __restrict sums, double* __restrict errors, const double* __restrict values,
                                          const double* __restrict signs) {
  for (std::size_t i = 0; i < kBlock; ++i) add_exactly(sums[i], errors[i], values[i] * signs[i]);
}

/// The buckets, twice: a block rotated by r fills [r, r + 256) without a break, and the two halves are added at the end.
class PlainSums {
 public:
  void add(const float* values, const Block<float>& signs, std::size_t rotation) { add_block(sums_.data() + rotation, values, signs.data()); }
  double bucket(std::size_t i) const { return sums_[i] + sums_[i + kBlock]; }

 private:
  std::array<double, 2 * kBlock> sums_{};
};

/// As above with each addition's exact rounding error summed beside it. The result is Neumaier's,
/// without his branch.
class CompensatedSums {
 public:
  void add(const double* values, const Block<double>& signs, std::size_t rotation) {
    add_block_exactly(sums_.data() + rotation, errors_.data() + rotation, values, signs.data());
  }
  double bucket(std::size_t i) const {
    double sum = sums_[i];
    double error = errors_[i] + errors_[i + kBlock];
    add_exactly(sum, error, sums_[i + kBlock]);
    // After an infinity the errors are not numbers; the sum itself says what happened.
    return std::isfinite(sum) ? sum + error : sum;
  }

 private:
  std::array<double, 2 * kBlock> sums_{};
  std::array<double, 2 * kBlock> errors_{};
};

// --- Sketch --------------------------------------------------------------------------------------------------------

void check_part(std::size_t size, std::string_view name, std::int64_t offset, std::int64_t numel) {
  if (offset >= 0 && numel >= 0 && offset <= numel && static_cast<std::uint64_t>(numel - offset) >= size) return;
  throw Error(ErrorCode::kInvalidArgument, "The part to sketch is not inside its tensor",
              {{"name", std::string(name)}, {"offset", std::to_string(offset)}, {"size", std::to_string(size)}, {"numel", std::to_string(numel)}});
}

std::uint64_t key_of(std::string_view name) {
  const Digest digest = digest_text(name);
  std::uint64_t key = 0;
  for (std::size_t i = 0; i < 8; ++i) key = (key << 8) | digest.bytes[i];
  return key;
}

template <class Sums, class T>
class Sketcher {
 public:
  explicit Sketcher(std::string_view name) : name_key_(key_of(name)) {}

  /// Adds elements [offset, offset + values.size()) of the tensor.
  void add(std::span<const T> values, std::size_t offset) {
    while (!values.empty()) {
      const std::size_t start = offset % kBlock;
      const std::size_t count = std::min(kBlock - start, values.size());
      if (count == kBlock) {
        add_block(values.data(), offset / kBlock);
      } else {
        // Zeros elsewhere change no sum, and one loop serves all blocks.
        Block<T> padded{};
        std::copy_n(values.data(), count, padded.data() + start);
        add_block(padded.data(), offset / kBlock);
      }
      offset += count;
      values = values.subspan(count);
    }
  }

  std::vector<double> buckets() const {
    std::vector<double> result(kBlock);
    for (std::size_t i = 0; i < kBlock; ++i) result[i] = sums_.bucket(i);
    return result;
  }

 private:
  void add_block(const T* values, std::size_t block) {
    const std::uint64_t block_key = counter_random(name_key_, block);
    Block<T> signs;
    draw_signs(block_key, signs);
    sums_.add(values, signs, counter_random(block_key, 0) % kBlock);
  }

  std::uint64_t name_key_;
  Sums sums_;
};

template <class Sums, class T>
std::vector<double> sketch_values(std::span<const T> values, std::string_view name, std::int64_t offset, std::int64_t numel) {
  check_part(values.size(), name, offset, numel);
  if (numel <= kSketchSize) {
    std::vector<double> whole(static_cast<std::size_t>(numel));
    std::copy(values.begin(), values.end(), whole.begin() + offset);
    return whole;
  }
  Sketcher<Sums, T> sketcher(name);
  sketcher.add(values, static_cast<std::size_t>(offset));
  return sketcher.buckets();
}

// --- Norm ----------------------------------------------------------------------------------------------------------

/// Sum of squares of kNormBlock values: 64 additions a lane, then 4 over the lanes.
template <class T>
[[gnu::always_inline]] inline double squares_of(const T* values) {
  std::array<double, kLanes> lanes{};
  for (std::size_t i = 0; i < kNormBlock; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<double>(values[i + lane]);
      lanes[lane] += value * value;
    }
  }
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}
SAMERUN_ALL_WIDTHS double block_squares(const float* values) {
  return squares_of(values);
}
SAMERUN_ALL_WIDTHS double block_squares(const double* values) {
  return squares_of(values);
}

/// Pairwise sum of a stream: partial k holds 2^k terms, as the bits of a counter do.
class PairwiseSum {
 public:
  void add(double value) {
    std::size_t level = 0;
    for (std::uint64_t bits = count_; bits & 1; bits >>= 1) value += partials_[level++];
    partials_[level] = value;
    ++count_;
  }
  double total() const {
    double sum = 0;
    for (std::size_t level = 0; level < partials_.size(); ++level) {
      if ((count_ >> level) & 1) sum += partials_[level];
    }
    return sum;
  }

 private:
  std::uint64_t count_ = 0;
  std::array<double, 64> partials_{};
};

/// A value passes at most 64 + 4 additions in its block and about log2(size / 1024) + 1 after it: below 90 roundings of
/// the sum of squares at 10^8 values, so below 45 of the norm.
template <class T>
double norm_of(std::span<const T> values) {
  PairwiseSum squares;
  while (values.size() >= kNormBlock) {
    squares.add(block_squares(values.data()));
    values = values.subspan(kNormBlock);
  }
  if (!values.empty()) {
    std::array<T, kNormBlock> padded{};
    std::copy(values.begin(), values.end(), padded.begin());
    squares.add(block_squares(padded.data()));
  }
  return std::sqrt(squares.total());
}

}  // namespace

std::vector<double> sketch(std::span<const float> values, std::string_view name, std::int64_t offset, std::int64_t numel) {
  return sketch_values<PlainSums>(values, name, offset, numel);
}

std::vector<double> sketch(std::span<const double> values, std::string_view name, std::int64_t offset, std::int64_t numel) {
  return sketch_values<CompensatedSums>(values, name, offset, numel);
}

double norm2(std::span<const float> values) {
  return norm_of(values);
}
double norm2(std::span<const double> values) {
  return norm_of(values);
}

double sketch_distance(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    throw Error(ErrorCode::kInvalidArgument, "Sketches of different lengths cannot be compared",
                {{"left", std::to_string(a.size())}, {"right", std::to_string(b.size())}});
  }
  std::vector<double> difference(a.begin(), a.end());
  for (std::size_t i = 0; i < b.size(); ++i) difference[i] -= b[i];
  return norm2(difference);
}

}  // namespace samerun
