#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace samerun::verify {

inline constexpr double kUnit64 = 0x1p-53;
inline constexpr double kBandFactor = 64;  ///< Multiple of the rounding noise that is still rounding.
inline constexpr double kDecided = 1e-9;   ///< Largest relative tolerance with which a float64 gradient counts as decided.

/// Unit roundoff of the dtype in which gradients are accumulated; that of float32 for a dtype that is not known.
double unit_roundoff(std::string_view dtype);
/// Smallest subnormal of `dtype`; 0 for one that is not known.
double smallest_subnormal(std::string_view dtype);

/// The bound of tier S on ||D - R||: 2 b u A, with b = h + 4 in float64 and min(h + 4, 4 sqrt(h + 4)) otherwise.
/// `scale` is A, `numel` adds the underflow term. A = 0 demands D = R, so the limit is then 0.
double sum_limit(std::int64_t terms, double scale, std::string_view dtype, std::int64_t numel);

/// Rounding allowed to a norm or to an elementwise replay: 64 u, or u sqrt(n / 8) where a norm of n elements is longer
/// than the sums that the constant 64 was measured on (a running sum of n / 8 lanes wanders by about its square root).
double norm_tolerance(double unit, std::int64_t largest_numel);

/// Equal bit for bit; every NaN equals every NaN.
bool same_value(double a, double b);

/// "1/4", "4/3", ... where `ratio` is within 1e-6 of a simple fraction of the plan's numbers; empty otherwise.
std::string simple_fraction(double ratio, std::int64_t ranks, std::int64_t windows);

/// `text` as a whole number, `otherwise` when it is none.
std::int64_t whole_number(const std::string& text, std::int64_t otherwise);

std::string number(double value);                                                 ///< Three digits, "%.3g".
std::string exact_number(double value);                                           ///< As few digits as give the same double.
std::string count_of(std::int64_t count, std::string_view noun);                  ///< "1 step", "3 steps".
std::string some_names(const std::vector<std::string>& names, std::size_t most);  ///< "a, b and 3 more".

}  // namespace samerun::verify
