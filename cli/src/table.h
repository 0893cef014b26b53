#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace samerun::cli {

/// Rows of equal length, the first one the heads; columns two spaces apart, the last one unpadded.
std::string table_text(const std::vector<std::vector<std::string>>& rows);

/// "2026-03-01 14:05:09" in UTC.
std::string utc_text(std::int64_t utc_ns);
/// "4.2 s", "3 min 20 s", "2 h 5 min".
std::string duration_text(std::int64_t duration_ns);
/// "./train --epochs 3": words with blanks or quotes are quoted, control characters escaped.
std::string command_text(const std::vector<std::string>& command);
/// Lines of at most `columns`, broken at blanks, each behind `indent` blanks. What `most_lines` do not hold is cut.
std::string wrapped_text(const std::string& text, std::size_t indent, std::size_t columns, std::size_t most_lines);
/// Text of unknown origin, made safe for a terminal: control characters become \xNN.
std::string printable(const std::string& text);

}  // namespace samerun::cli
