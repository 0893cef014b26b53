#include "table.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace samerun::cli {

std::string table_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text.append(widths[i] - row[i].size() + 2, ' ');
    }
    text.resize(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string utc_text(std::int64_t utc_ns) {
  const std::time_t seconds = utc_ns / 1'000'000'000;
  std::tm parts{};
  char text[32] = "";
  if (::gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::string duration_text(std::int64_t duration_ns) {
  const double seconds = static_cast<double>(duration_ns) * 1e-9;
  char text[48];
  if (seconds < 60) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
    return text;
  }
  const long long whole = duration_ns / 1'000'000'000;
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%lld min %lld s", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld h %lld min", whole / 3600, whole % 3600 / 60);
  }
  return text;
}

std::string printable(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      result += c;
      continue;
    }
    char escaped[5];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    result += escaped;
  }
  return result;
}

std::string wrapped_text(const std::string& text, std::size_t indent, std::size_t columns, std::size_t most_lines) {
  const std::size_t width = columns - indent;
  std::string result, rest = text;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const bool cut = line == most_lines && rest.size() > width;
    const std::size_t space = rest.rfind(' ', width);
    const std::size_t end = rest.size() <= width ? rest.size() : cut ? width - 3 : space == std::string::npos || space == 0 ? width : space;
    result += std::string(indent, ' ') + rest.substr(0, end) + (cut ? "...\n" : "\n");
    if (cut) break;
    rest.erase(0, end + (end == space ? 1 : 0));
  }
  return result;
}

std::string command_text(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n\"'\\$`*?;&|<>()") == std::string::npos;
    if (!text.empty()) text += ' ';
    if (plain) {
      text += word;
      continue;
    }
    text += '\'';
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += '\'';
  }
  return printable(text);
}

}  // namespace samerun::cli
