#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

namespace samerun::recorder {

/// "[64,1,8,8]": also a JSON array, so that json_each() of the sqlite3 shell reads it.
inline std::string shape_to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::int64_t size : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(size);
  }
  return text + ']';
}

inline std::vector<std::int64_t> shape_from_text(const std::string& text) {
  std::vector<std::int64_t> shape;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++at) {
    std::int64_t size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc()) continue;  // A bracket or a comma.
    shape.push_back(size);
    at = next;
  }
  return shape;
}

}  // namespace samerun::recorder
