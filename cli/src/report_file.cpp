#include "report_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "record_access.h"
#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"
#include "samerun/verify/report_html.h"
#include "speed.h"
#include "table.h"

namespace samerun::cli {

namespace fs = std::filesystem;

namespace {

verify::MeanStep mean_step(const std::string& name, const profiler::StepProfile& profile) {
  const std::string over = std::to_string(profile.wall_ms.size()) + " steps of " + std::to_string(profile.ranks) +
                           (profile.ranks == 1 ? " rank" : " ranks") + ", after " + std::to_string(profile.warmup_steps) + " to warm up";
  verify::MeanStep mean{name, over, profile.mean_ms, {}};
  for (std::size_t i = 0; i < profiler::kParts.size(); ++i) mean.parts.emplace_back(profiler::kParts[i].name, profile.mean_parts_ms[i]);
  return mean;
}

void add_speed(const recorder::Reader& reader, const verify::Report& report, verify::ReportFacts& facts) {
  for (const auto& [name, id] : {std::pair("candidate", report.candidate), std::pair("reference", report.reference)}) {
    const auto run = reader.run(id);
    const auto steps = run ? read_speed(reader, *run).steps : std::nullopt;
    if (steps) facts.phases.push_back(mean_step(name, *steps));
  }
  facts.scaling = scaling_text(reader, report.candidate, report.reference);
}

/// Flags with which `samerun pair` makes the candidate and its reference again. Threads change bits, so they are always said.
std::vector<std::string> pair_words(const recorder::Reader& reader, const recorder::RunRow& candidate, std::int64_t reference) {
  std::vector<std::string> words{"samerun", "pair", "-n", std::to_string(candidate.world_size)};
  for (const recorder::SettingRow& row : reader.settings(candidate.id)) {
    if (row.rank != 0) continue;
    if (row.setting.key == "threads") words.insert(words.end(), {"--threads", row.setting.value});
    if (row.setting.key == "seed" && row.setting.origin == "environment") words.insert(words.end(), {"--seed", row.setting.value});
  }
  for (const recorder::SettingRow& row : reader.settings(reference)) {
    if (row.rank == 0 && row.setting.key == "reference" && row.setting.value != "replay") {
      words.insert(words.end(), {"--reference", row.setting.value});
    }
  }
  words.emplace_back("--");
  words.insert(words.end(), candidate.argv.begin(), candidate.argv.end());
  return words;
}

void add_recipes(const recorder::Reader& reader, const verify::Report& report, const std::string& record, verify::ReportFacts& facts) {
  const std::string folder = fs::absolute(record_folder(record)).lexically_normal().string();
  const std::vector<std::string> runs{std::to_string(report.candidate), std::to_string(report.reference)};
  if (const auto candidate = reader.run(report.candidate)) {
    facts.reproduce.push_back({"Train again and judge. Variables given with --candidate-env and --reference-env, and --steps, are to be added.",
                               command_text({"cd", candidate->cwd}) + "\n" + command_text(pair_words(reader, *candidate, report.reference))});
  }
  if (reader.run(report.candidate) && reader.run(report.reference)) {
    facts.reproduce.push_back(
        {"Judge these runs again, from the record alone.", command_text({"samerun", "verify", runs[0], runs[1], "--record-dir", folder})});
  }
  const bool pair = !report.group_id.empty();
  facts.reproduce.push_back(
      {"Write this page again.", command_text(pair ? std::vector<std::string>{"samerun", "report", report.group_id, "--record-dir", folder}
                                                   : std::vector<std::string>{"samerun", "report", runs[0], runs[1], "--record-dir", folder})});
}

[[noreturn]] void cannot_write(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::kStorage, "cannot write the report " + file + ": " + why + "; -o of samerun report names another place");
}

void write_text(const std::string& text, const std::string& file, const std::string& report) {
  errno = 0;
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream << text;
  stream.close();
  if (!stream) cannot_write(report, std::strerror(errno));
}

/// Beside the place first, and then renamed to it: a reader never meets half a page.
void write_beside(const std::string& text, const std::string& file) {
  std::error_code error;
  const std::string beside = file + ".part-" + std::to_string(getpid());
  try {
    write_text(text, beside, file);
    fs::rename(beside, file, error);
    if (error) cannot_write(file, error.message());
  } catch (const Error&) {
    fs::remove(beside, error);
    throw;
  }
}

void write_whole(const std::string& text, const std::string& file) {
  std::error_code error;
  const fs::path folder = fs::path(file).parent_path();
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) cannot_write(file, error.message());
  // A device, a pipe or a link is written to, not replaced: as root, a rename onto /dev/null would go through.
  const fs::file_status there = fs::symlink_status(file, error);
  const bool replaced = !fs::exists(there) || fs::is_regular_file(there) || fs::is_directory(there);
  replaced ? write_beside(text, file) : write_text(text, file, file);
}

}  // namespace

std::string report_path(const std::string& record, const verify::Report& report) {
  const std::string runs = "runs-" + std::to_string(report.candidate) + "-" + std::to_string(report.reference);
  return (fs::path(record_folder(record)) / "reports" / ((report.group_id.empty() ? runs : report.group_id) + ".html")).string();
}

void write_report(const recorder::Reader& reader, const verify::Report& report, const std::string& record, const std::string& file) {
  verify::ReportFacts facts = verify::gather_report_facts(reader, report);
  add_speed(reader, report, facts);
  add_recipes(reader, report, record, facts);
  write_whole(verify::to_html(report, facts), file);
}

}  // namespace samerun::cli
