#include <algorithm>

#include "findings.h"
#include "samerun/verify/verify.h"

namespace samerun::verify {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kSummaryLines = 5, kNotExercisedLines = 6;

// Names come from the program under test: nothing of theirs may move the cursor or break the width.
std::string printable(const std::string& text) {
  std::string clean;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    clean += byte >= 0x20 && byte < 0x7f ? c : (c == '\n' || c == '\t' ? ' ' : '?');
  }
  return clean;
}

std::string cut(const std::string& text, std::size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 3) + "...";
}

std::vector<std::string> wrapped(const std::string& text, const std::string& indent, std::size_t most_lines) {
  std::vector<std::string> lines;
  std::string rest = printable(text);
  const std::size_t width = kColumns - indent.size();
  while (!rest.empty()) {
    if (rest.size() <= width || lines.size() + 1 == most_lines) {
      lines.push_back(indent + cut(rest, width));
      break;
    }
    const std::size_t space = rest.rfind(' ', width);
    const std::size_t at = space == std::string::npos || space == 0 ? width : space;
    lines.push_back(indent + rest.substr(0, at));
    rest.erase(0, at + (at == space ? 1 : 0));
  }
  return lines;
}

std::string colored(Verdict word, const std::string& text, bool color) {
  if (!color) return text;
  const char* code = word == Verdict::kSame ? "32" : word == Verdict::kDifferent ? "31" : "33";
  return std::string("\x1b[") + code + "m" + text + "\x1b[0m";
}

std::string padded(std::string text, std::size_t columns) {
  text.resize(std::max(columns, text.size()), ' ');
  return text;
}

std::vector<Evidence> all_findings(const Report& report) {
  std::vector<Evidence> all;
  for (const auto& check : report.checks) all.insert(all.end(), check.evidence.begin(), check.evidence.end());
  std::sort(all.begin(), all.end(), earlier);
  return all;
}

std::string place(const Evidence& evidence) {
  std::string text = evidence.check;
  if (evidence.step >= 0) text += ", step " + std::to_string(evidence.step);
  if (evidence.rank >= 0) text += ", rank " + std::to_string(evidence.rank);
  return text;
}

// The findings, in at most `room` lines; the last says how many are left out.
void add_findings(const Report& report, std::size_t room, std::vector<std::string>& lines) {
  const auto all = all_findings(report);
  if (all.empty() || room < 3) return;
  lines.emplace_back("findings");
  --room;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto text = wrapped(place(all[i]) + ": " + all[i].text, "  ", 3);
    const bool last = i + 1 == all.size();
    if (text.size() + (last ? 0 : 1) > room) {
      lines.push_back("  ... and " + std::to_string(all.size() - i) + " more");
      return;
    }
    lines.insert(lines.end(), text.begin(), text.end());
    room -= text.size();
  }
}

void add_not_exercised(const Report& report, std::vector<std::string>& lines) {
  if (report.not_exercised.empty()) return;
  lines.emplace_back("not exercised");
  for (const auto& text : report.not_exercised) lines.push_back(cut("  " + printable(text), kColumns));
}

}  // namespace

std::string to_text(const Report& report, bool color, std::size_t most_lines) {
  std::vector<std::string> lines;
  const std::string word = padded(std::string(to_string(report.verdict)), 12);
  std::string header = "  run " + std::to_string(report.candidate) + " against run " + std::to_string(report.reference);
  if (!report.group_id.empty()) header += ", pair " + printable(report.group_id);
  lines.push_back(colored(report.verdict, word, color) + cut(header, kColumns - word.size()));
  for (auto& line : wrapped(report.summary, "", kSummaryLines)) lines.push_back(std::move(line));
  lines.emplace_back("check       word          what was compared");
  // a table of its own may take two lines a check; findings need the room more
  const std::size_t most = all_findings(report).empty() ? 2 : 1;
  for (const auto& check : report.checks) {
    const std::string name = padded(check.name, 12), of_check = padded(std::string(to_string(check.word)), 14);
    const auto summary = wrapped(check.summary, std::string(name.size() + of_check.size(), ' '), most);
    lines.push_back(name + colored(check.word, of_check, color) + (summary.empty() ? "" : summary.front().substr(name.size() + of_check.size())));
    lines.insert(lines.end(), summary.begin() + (summary.empty() ? 0 : 1), summary.end());
  }
  const std::size_t after = report.not_exercised.empty() ? 0 : std::min(report.not_exercised.size() + 1, kNotExercisedLines);
  add_findings(report, most_lines - std::min(most_lines, lines.size() + after), lines);
  add_not_exercised(report, lines);
  std::string text;
  for (std::size_t i = 0; i < lines.size() && i < most_lines; ++i) text += lines[i] + "\n";
  return text;
}

}  // namespace samerun::verify
