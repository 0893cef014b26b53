#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "backend.h"
#include "checkpoints.h"
#include "commands.h"
#include "launcher.h"
#include "program.h"
#include "record_access.h"
#include "run_settings.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"

namespace samerun::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::kConfig, text);
}

/// What a run was started with and how it ended.
struct OldRun {
  recorder::RunRow row;
  std::map<std::string, SettingValue> settings;  ///< Of rank 0.
  std::map<std::string, std::string> variables;  ///< Of its launcher, as far as they are recorded.

  std::string name() const { return "run " + std::to_string(row.id); }
};

std::map<std::string, std::string> variables_of(const recorder::Reader& reader, std::int64_t run) {
  std::map<std::string, std::string> variables;
  for (const auto& row : reader.environment(run)) {
    const std::string& key = row.fact.key;
    if (key.starts_with("env.") && !key.starts_with("env.SAMERUN_")) variables[key.substr(4)] = row.fact.value;
  }
  return variables;
}

OldRun read_run(const recorder::Reader& reader, std::int64_t id) {
  const auto row = reader.run(id);
  if (!row) refuse("the record has no run " + std::to_string(id) + "; samerun runs lists them");
  OldRun run{*row, {}, variables_of(reader, id)};
  for (const auto& setting : reader.settings(id)) {
    if (setting.rank == 0) run.settings[setting.setting.key] = setting.setting;
  }
  return run;
}

/// Throws where there is nothing to go on with, or it cannot be known how.
void check_run(const OldRun& run, const ResumeOptions& options) {
  if (run.row.role != "run") refuse(run.name() + " is the run " + run.row.role + " of a comparison; runs of samerun launch can be resumed");
  if (run.row.status == "starting" || run.row.status == "running") refuse(run.name() + " is still running; stop it first");
  if (run.row.status == "finished" && !options.checkpoint)
    refuse(run.name() + " reached its end, there is nothing to go on with; name a checkpoint of it with --checkpoint to run from there again");
  if (!options.command.empty()) return;
  const auto redacted = [](const std::string& word) { return word.find("<redacted>") != std::string::npos; };
  if (std::any_of(run.row.argv.begin(), run.row.argv.end(), redacted)) {
    refuse("the record keeps no secrets, so the command line of " + run.name() + " is not whole; give it: samerun resume " +
           std::to_string(run.row.id) + " -- PROGRAM ARGS");
  }
}

Checkpoint choose_checkpoint(const recorder::Reader& reader, const std::string& record, const OldRun& run, const ResumeOptions& options) {
  if (options.checkpoint) return read_checkpoint(*options.checkpoint);
  const CheckpointSearch search = find_checkpoint(reader, record, run.row.id);
  if (search.newest) return *search.newest;
  std::string folders;
  for (const std::string& folder : search.folders) folders += (folders.empty() ? "" : ", ") + folder;
  refuse(run.name() + " left no checkpoint: looked for folders with a manifest.json in " + folders +
         "; the program makes one with accelerator.save_state()");
}

/// What the old run's ranks read from the environment: the same again, and what they had by default stays so.
void add_settings(const OldRun& run, LaunchSpec& spec) {
  const std::map<std::string, const char*> variables{
      {"seed", env::kSeed}, {"accumulation_steps", env::kAccumulation}, {"timeout_s", env::kTimeout}, {"precision", env::kPrecision}};
  for (const auto& [key, variable] : variables) {
    const auto setting = run.settings.find(key);
    spec.unset.emplace_back(variable);
    if (setting != run.settings.end() && setting->second.origin == "environment") spec.env[variable] = setting->second.value;
  }
  const auto threads = run.settings.find("threads");
  if (threads != run.settings.end()) spec.threads = std::max(1, std::atoi(threads->second.value.c_str()));
}

/// The backend that the old run used, where that is known and changes how sums are rounded; else as if nothing had been said.
Backend find_backend_of(const OldRun& run) {
  const auto used = run.settings.find("backend");
  const bool again = used != run.settings.end() && (used->second.value == "mpi" || used->second.value == "gloo");
  if (!again) return find_backend({"auto", Origin::kDefault}, run.row.world_size);
  try {
    return find_backend({used->second.value, Origin::kFile}, run.row.world_size);
  } catch (const Error& error) {
    throw Error(error.code(), run.name() + " used MPI, so that what goes on from it must too: " + error.what());
  }
}

void add_backend(const Backend& backend, LaunchSpec& spec) {
  spec.unset.emplace_back(env::kBackend);
  for (const auto& [name, value] : backend.environment()) spec.env[name] = value;
  spec.mpi = backend.mpi;
}

LaunchSpec plan(const OldRun& run, const Checkpoint& checkpoint, const ResumeOptions& options) {
  LaunchSpec spec;
  spec.world_size = run.row.world_size;
  spec.command = options.command.empty() ? run.row.argv : options.command;
  spec.parent_id = run.row.id;
  spec.prefix = options.prefix || spec.world_size > 1;
  add_settings(run, spec);
  spec.env[env::kResumeFrom] = checkpoint.folder;
  spec.env[env::kCheckpointDir] = fs::path(checkpoint.folder).parent_path().string();
  return spec;
}

void warn(const std::string& text) {
  std::fprintf(stderr, "samerun: warning: %s\n", text.c_str());
}

/// Says what is not as it was: the results may then be other ones.
void tell_changes(const recorder::Reader& reader, const OldRun& run, std::int64_t id) {
  const auto now = reader.run(id);
  if (now && now->program_digest != run.row.program_digest) warn("the program's file is not the one of " + run.name() + " any more");
  std::map<std::string, std::string> variables = variables_of(reader, id);
  for (const auto& [name, value] : run.variables) variables.try_emplace(name, "");
  for (const auto& [name, value] : variables) {
    const auto before = run.variables.find(name);
    const std::string old_value = before != run.variables.end() ? before->second : "";
    if (value != old_value) warn("the environment's " + name + " is \"" + value + "\", and was \"" + old_value + "\" in " + run.name());
  }
}

void enter(const OldRun& run) {
  std::error_code error;
  fs::current_path(run.row.cwd, error);
  if (error) refuse("cannot enter " + run.row.cwd + ", where " + run.name() + " was started: " + error.message());
}

}  // namespace

int run_resume(const ResumeOptions& options) {
  const std::string record = record_folder(resolve_record_dir(options.record_dir));
  refresh_record(record);
  OldRun run;
  LaunchSpec spec;
  Backend backend;
  std::string from;
  {
    const recorder::Reader reader(record);
    run = read_run(reader, options.run);
    check_run(run, options);
    const Checkpoint checkpoint = choose_checkpoint(reader, record, run, options);
    spec = plan(run, checkpoint, options);
    backend = find_backend_of(run);
    add_backend(backend, spec);
    from = (checkpoint.step >= 0 ? "step " + std::to_string(checkpoint.step) + ", " : "") + checkpoint.folder;
  }
  enter(run);
  resolve_program(spec.command.front());
  recorder::Store store(record);
  const std::string carried = backend.text().empty() ? "" : backend.text() + ", ";
  spec.begun = [&](std::int64_t id) {
    if (!options.quiet) {
      std::fprintf(stderr, "samerun: run %lld goes on from %s: ranks %d, threads %d, %srecord %s\n", static_cast<long long>(id), from.c_str(),
                   spec.world_size, spec.threads, carried.c_str(), record.c_str());
    }
    tell_changes(recorder::Reader(record), run, id);
  };
  Launcher launcher(&store);
  return finish_launch(launcher.run(spec), &store, options.quiet);
}

}  // namespace samerun::cli
