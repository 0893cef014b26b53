#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace samerun {

/// Number of buckets; tensors of at most this many elements are kept whole.
inline constexpr std::int64_t kSketchSize = 256;

/// A count-sketch of one row (Charikar, Chen, Farach-Colton 2002) of `numel` elements, linear in its input.
///
/// Element i of a tensor named `name` goes to bucket (i + rotation(block)) mod 256 with sign(i); block = i / 256, and
/// rotation and sign are hashes of (name, block). Elements of one block never collide; two of different blocks collide
/// with probability 1/256, so ||sketch||^2 is an unbiased estimate of ||x||^2 with relative variance at most 2/256
/// (relative standard deviation of the norm about 4.4 %). sketch(x) - sketch(y) = sketch(x - y), and shards' sketches
/// add up to the sketch of the whole tensor. Float64 input is summed with compensation (Neumaier), float32 input in
/// float64, whose rounding is 2^29 finer.
/// Where numel <= 256 the buckets are the elements themselves (a vector of numel values).
std::vector<double> sketch(std::span<const float> values, std::string_view name, std::int64_t offset, std::int64_t numel);
std::vector<double> sketch(std::span<const double> values, std::string_view name, std::int64_t offset, std::int64_t numel);

/// ||values||_2 in float64, blocked pairwise: relative error below 64 * 2^-53 up to 10^8 elements.
double norm2(std::span<const float> values);
double norm2(std::span<const double> values);

/// ||a - b||_2 of two sketches of equal length. Throws kInvalidArgument if the lengths differ.
double sketch_distance(std::span<const double> a, std::span<const double> b);

}  // namespace samerun
