#include "checkpoints.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <tuple>

#include "rank_environment.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/core/settings.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"

namespace samerun::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr const char* kResume = "samerun resume ";

std::int64_t whole(const nlohmann::json& object, const char* key, std::int64_t otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

/// The run that a manifest's command goes on with: it wrote the checkpoint.
std::optional<std::int64_t> run_of_command(const std::string& command) {
  if (!command.starts_with(kResume)) return std::nullopt;
  const std::int64_t run = std::atoll(command.c_str() + std::string_view(kResume).size());
  return run > 0 ? std::optional(run) : std::nullopt;
}

fs::path default_checkpoints(const std::string& record, std::int64_t run) {
  return fs::absolute(record) / "checkpoints" / ("run-" + std::to_string(run));
}

/// `run`, the run that it goes on from, and so on.
std::vector<recorder::RunRow> chain_of(const recorder::Reader& reader, std::int64_t run) {
  std::vector<recorder::RunRow> chain;
  std::set<std::int64_t> seen;
  for (std::optional<std::int64_t> id = run; id && seen.insert(*id).second; id = chain.back().parent_id) {
    const auto row = reader.run(*id);
    if (!row) break;
    chain.push_back(*row);
  }
  return chain;
}

void add_folder(std::vector<std::string>& folders, const fs::path& folder) {
  const std::string text = folder.lexically_normal().string();
  if (std::find(folders.begin(), folders.end(), text) == folders.end()) folders.push_back(text);
}

std::vector<std::string> folders_of(const recorder::Reader& reader, const std::string& record, const std::vector<recorder::RunRow>& chain) {
  std::vector<std::string> folders;
  for (const recorder::RunRow& run : chain) {
    for (const auto& row : reader.settings(run.id)) {
      if (row.rank == 0 && row.setting.key == "checkpoint_dir" && !row.setting.value.empty())
        add_folder(folders, fs::path(run.cwd) / row.setting.value);
    }
    for (const auto& row : reader.checkpoints(run.id)) add_folder(folders, fs::path(row.checkpoint.path).parent_path());
    add_folder(folders, default_checkpoints(record, run.id));
  }
  return folders;
}

/// Those in `folder` that one of `runs` wrote, or that do not say who did.
void add_checkpoints(const std::string& folder, const std::set<std::int64_t>& runs, std::vector<Checkpoint>& found) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->path().filename().string().starts_with(".") || !fs::exists(it->path() / kManifest, ignored)) continue;
    try {
      const Checkpoint checkpoint = read_checkpoint(it->path().string());
      if (!checkpoint.run || runs.count(*checkpoint.run) != 0) found.push_back(checkpoint);
    } catch (const Error&) {
      // Not a checkpoint that anything could be loaded from: an older one may do.
    }
  }
}

}  // namespace

Checkpoint read_checkpoint(const std::string& folder) {
  const fs::path path = fs::absolute(folder) / kManifest;
  std::error_code ignored;
  std::ifstream file;
  if (fs::is_regular_file(path, ignored)) file.open(path, std::ios::binary);  // a pipe would be waited for
  if (!file.is_open()) {
    throw Error(ErrorCode::kConfig, folder + " is no checkpoint that was committed: it has no readable " + kManifest);
  }
  const auto manifest = nlohmann::json::parse(file, nullptr, false);
  if (!manifest.is_object()) throw Error(ErrorCode::kCorruption, path.string() + " is damaged: it is not a JSON object; take another checkpoint");
  Checkpoint checkpoint;
  checkpoint.folder = fs::absolute(folder).lexically_normal().string();
  const auto position = manifest.find("position");
  checkpoint.step = whole(position != manifest.end() && position->is_object() ? *position : manifest, "optimizer_step", -1);
  checkpoint.saved_utc_ns = whole(manifest, "saved_utc_ns", 0);
  const auto command = manifest.find("resume_command");
  if (command != manifest.end() && command->is_string()) checkpoint.run = run_of_command(command->get<std::string>());
  return checkpoint;
}

CheckpointSearch find_checkpoint(const recorder::Reader& reader, const std::string& record, std::int64_t run) {
  const std::vector<recorder::RunRow> chain = chain_of(reader, run);
  std::set<std::int64_t> runs;
  for (const recorder::RunRow& row : chain) runs.insert(row.id);
  CheckpointSearch search;
  search.folders = folders_of(reader, record, chain);
  std::vector<Checkpoint> found;
  for (const std::string& folder : search.folders) add_checkpoints(folder, runs, found);
  // By time: a run that went on from an early checkpoint is newer than a later step of the run before it.
  const auto key = [](const Checkpoint& checkpoint) { return std::make_tuple(checkpoint.saved_utc_ns, checkpoint.step); };
  const auto newest = std::max_element(found.begin(), found.end(), [&](const Checkpoint& a, const Checkpoint& b) { return key(a) < key(b); });
  if (newest != found.end()) search.newest = *newest;
  return search;
}

std::string resume_command(const std::string& record, std::int64_t run) {
  std::string text = kResume + std::to_string(run);
  const fs::path folder = fs::absolute(record).lexically_normal();
  if (folder == fs::absolute(recorder::default_folder()).lexically_normal()) return text;
  const bool plain = folder.string().find_first_of(" \t'\"\\$&;|<>()*?#") == std::string::npos;
  return text + " --record-dir " + (plain ? folder.string() : "\"" + folder.string() + "\"");
}

std::string resume_hint(const std::string& record, std::int64_t run) {
  const recorder::Reader reader(record);
  const CheckpointSearch search = find_checkpoint(reader, record, run);
  if (!search.newest) return {};
  const std::string step = search.newest->step >= 0 ? " from step " + std::to_string(search.newest->step) : "";
  return "to go on" + step + ": " + resume_command(record, run);
}

void add_checkpoint_variables(const std::string& record, std::int64_t run, RankContract& contract) {
  contract.set.try_emplace(env::kResumeCommand, resume_command(record, run));
  if (contract.set.count(env::kCheckpoints) != 0) return;
  const bool inherits = std::find(contract.unset.begin(), contract.unset.end(), env::kCheckpointDir) == contract.unset.end();
  if (inherits && environment_text(env::kCheckpointDir)) return;
  contract.set.try_emplace(env::kCheckpointDir, default_checkpoints(record, run).string());
}

}  // namespace samerun::cli
