#include "samerun/core/settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "samerun/core/error.h"

namespace samerun {
namespace {

bool same_letter(char a, char b) {
  const auto plain = [](char letter) { return letter == '_' ? '-' : letter; };
  return plain(a) == plain(b);
}

/// Levenshtein's distance, one row of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (same_letter(a[i], b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

/// Not std::tolower, which depends on the locale.
std::string lower_case(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

}  // namespace

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::kArgument:
      return "argument";
    case Origin::kEnvironment:
      return "environment";
    case Origin::kFile:
      return "file";
    case Origin::kDefault:
      return "default";
  }
  return "default";
}

std::optional<std::string> nearest_word(std::string_view word, const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  std::size_t least = std::min<std::size_t>(3, word.size() / 2) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = &candidate;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

std::optional<std::string> environment_text(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

std::optional<std::int64_t> environment_integer(const char* name, std::int64_t least, std::int64_t most) {
  const std::optional<std::string> text = environment_text(name);
  if (!text) return std::nullopt;
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, failure] = std::from_chars(text->data(), end, value);
  if (failure != std::errc{} || stop != end || value < least || value > most) {
    throw Error(
        ErrorCode::kConfig,
        std::string(name) + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", not \"" + *text + "\"",
        {{"variable", name}, {"value", *text}});
  }
  return value;
}

std::optional<bool> environment_bool(const char* name) {
  static constexpr std::array<std::string_view, 6> kTrue = {"y", "yes", "t", "true", "on", "1"};
  static constexpr std::array<std::string_view, 6> kFalse = {"n", "no", "f", "false", "off", "0"};
  const std::optional<std::string> text = environment_text(name);
  if (!text) return std::nullopt;
  const std::string word = lower_case(*text);
  if (std::find(kTrue.begin(), kTrue.end(), word) != kTrue.end()) return true;
  if (std::find(kFalse.begin(), kFalse.end(), word) != kFalse.end()) return false;
  throw Error(ErrorCode::kConfig, std::string(name) + " must be yes or no (true, false, on, off, 1, 0), not \"" + *text + "\"",
              {{"variable", name}, {"value", *text}});
}

}  // namespace samerun
