#include "numeric.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace samerun::verify {
namespace {

std::string formatted(const char* format, double value) {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

}  // namespace

double unit_roundoff(std::string_view dtype) {
  if (dtype == "float64") return kUnit64;
  if (dtype == "float16") return 0x1p-11;
  if (dtype == "bfloat16") return 0x1p-8;
  return 0x1p-24;
}

double smallest_subnormal(std::string_view dtype) {
  if (dtype == "float64") return 0x1p-1074;
  if (dtype == "float32") return 0x1p-149;
  if (dtype == "float16") return 0x1p-24;
  if (dtype == "bfloat16") return 0x1p-133;
  return 0;
}

double sum_limit(std::int64_t terms, double scale, std::string_view dtype, std::int64_t numel) {
  if (scale == 0) return 0;
  const double worst = static_cast<double>(std::max<std::int64_t>(terms, 1)) + 4;
  const double bound = dtype == "float64" ? worst : std::min(worst, 4 * std::sqrt(worst));
  const double underflow = worst * smallest_subnormal(dtype) * std::sqrt(static_cast<double>(std::max<std::int64_t>(numel, 1)));
  return 2 * bound * unit_roundoff(dtype) * scale + underflow;
}

double norm_tolerance(double unit, std::int64_t largest_numel) {
  return unit * std::max(kBandFactor, std::sqrt(static_cast<double>(std::max<std::int64_t>(largest_numel, 0)) / 8));
}

bool same_value(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

std::string simple_fraction(double ratio, std::int64_t ranks, std::int64_t windows) {
  const std::int64_t parts[] = {1, ranks, windows, ranks * windows, ranks - 1, ranks + 1, windows - 1, windows + 1, ranks * windows - 1, 2};
  for (const std::int64_t over : parts) {
    for (const std::int64_t under : parts) {
      if (over <= 0 || under <= 0 || over == under) continue;
      const double fraction = static_cast<double>(over) / static_cast<double>(under);
      if (std::abs(ratio - fraction) > 1e-6 * fraction) continue;
      return under == 1 ? std::to_string(over) : std::to_string(over) + "/" + std::to_string(under);
    }
  }
  return {};
}

std::int64_t whole_number(const std::string& text, std::int64_t otherwise) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

std::string number(double value) {
  return formatted("%.3g", value);
}

std::string exact_number(double value) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string count_of(std::int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string some_names(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < most; ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}  // namespace samerun::verify
