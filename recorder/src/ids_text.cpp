#include <charconv>
#include <cstddef>

#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"

namespace samerun::recorder {
namespace {

constexpr std::int64_t kMostIds = 100'000'000;  // A damaged range must not take all memory.

[[noreturn]] void damaged(const std::string& text) {
  throw Error(ErrorCode::kCorruption, "sample ids in the record cannot be read", {{"ids", text.substr(0, 80)}});
}

std::int64_t number(const char*& at, const char* end, const std::string& text) {
  std::int64_t value = 0;
  const auto [next, error] = std::from_chars(at, end, value);
  if (error != std::errc()) damaged(text);
  at = next;
  return value;
}

}  // namespace

std::string ids_to_text(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (std::size_t first = 0; first < ids.size();) {
    std::size_t last = first;
    while (last + 1 < ids.size() && ids[last + 1] == ids[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(ids[first]);
    if (last > first) text += (last == first + 1 ? ',' : '-') + std::to_string(ids[last]);
    first = last + 1;
  }
  return text;
}

std::vector<std::int64_t> ids_from_text(const std::string& text) {
  std::vector<std::int64_t> ids;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const std::int64_t first = number(at, end, text);
    std::int64_t last = first;
    if (at != end && *at == '-') last = number(++at, end, text);
    if (last < first || last - first >= kMostIds - static_cast<std::int64_t>(ids.size())) damaged(text);
    for (std::int64_t id = first; id <= last; ++id) ids.push_back(id);
    if (at == end) break;
    if (*at != ',' || ++at == end) damaged(text);
  }
  return ids;
}

}  // namespace samerun::recorder
