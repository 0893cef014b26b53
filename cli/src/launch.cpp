#include <cstdio>
#include <filesystem>
#include <memory>

#include "checkpoints.h"
#include "commands.h"
#include "host.h"
#include "launcher.h"
#include "program.h"
#include "run_settings.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"

namespace samerun::cli {
namespace {

bool wants_record(const LaunchOptions& options) {
  return !options.no_record && environment_bool("SAMERUN_RECORD").value_or(true);
}

LaunchSpec plan(const LaunchOptions& options, const RunSettings& settings) {
  LaunchSpec spec;
  spec.world_size = static_cast<int>(settings.ranks.value());
  spec.command = options.command;
  spec.env = settings.environment();
  spec.mpi = settings.backend.mpi;
  if (options.checkpoint_dir) spec.env[env::kCheckpointDir] = std::filesystem::absolute(*options.checkpoint_dir).string();
  spec.threads = static_cast<int>(settings.threads.value());
  spec.prefix = options.prefix || spec.world_size > 1;
  return spec;
}

void announce(const RunSettings& settings, bool recorded) {
  const std::string record = recorded ? with_origin(settings.record_dir.value(), settings.record_dir.origin()) : "none";
  std::fprintf(stderr, "samerun: %s, record %s\n", settings.text().c_str(), record.c_str());
  const int cores = usable_cores();
  if (settings.ranks.value() > cores) {
    std::fprintf(stderr, "samerun: warning: %lld ranks share %d usable cores\n", static_cast<long long>(settings.ranks.value()), cores);
  }
}

/// Not having found out must not hide how the run ended.
std::string hint(const LaunchResult& result, const recorder::Store* store) {
  if (store == nullptr || result.status == "finished") return {};
  try {
    return resume_hint(store->folder(), result.run);
  } catch (const Error&) {
    return {};
  }
}

void report(const LaunchResult& result, bool quiet) {
  const std::string run = result.run != 0 ? "run " + std::to_string(result.run) : "the run";
  if (!result.good()) {
    std::fprintf(stderr, "samerun: %s failed: %s\n", run.c_str(), result.failure_text().c_str());
  } else if (!quiet) {
    std::fprintf(stderr, "samerun: %s %s after %.1f s\n", run.c_str(), result.status.c_str(), result.wall_seconds);
  }
}

/// Why the record of a good run lacks rows; empty when it has all.
std::string record_gap(const std::string& folder, std::int64_t run) {
  const recorder::Reader reader(folder);
  const std::int64_t dropped = reader.dropped_rows(run);
  if (dropped > 0) return std::to_string(dropped) + " rows could not be kept";
  for (const auto& row : reader.events(run)) {
    if (row.event.kind == "record-stopped" || row.event.kind == "observer-detached" || row.event.kind == "staging-damaged") return row.event.text;
  }
  return {};
}

/// Training that ended well without the record that was asked for is no success.
int check_record(const recorder::Store& store, const LaunchResult& result) {
  const std::string gap = record_gap(store.folder(), result.run);
  if (gap.empty()) return result.exit_code;
  std::fprintf(stderr, "samerun: the program ended with code 0, but the record of run %lld is not complete: %s; free some space and run it again\n",
               static_cast<long long>(result.run), gap.c_str());
  return 3;
}

}  // namespace

int finish_launch(const LaunchResult& result, const recorder::Store* store, bool quiet) {
  report(result, quiet);
  const std::string how = hint(result, store);
  if (!how.empty() && (!quiet || !result.good())) std::fprintf(stderr, "%s\n", how.c_str());
  return store != nullptr && result.good() ? check_record(*store, result) : result.exit_code;
}

int run_launch(const LaunchOptions& options) {
  const RunSettings settings = resolve_run(options, 1);
  resolve_program(options.command.front());  // Before a record is made.
  const bool recorded = wants_record(options);
  std::unique_ptr<recorder::Store> store;
  if (recorded) store = std::make_unique<recorder::Store>(settings.record_dir.value());
  if (!options.quiet) announce(settings, recorded);
  Launcher launcher(store.get());
  return finish_launch(launcher.run(plan(options, settings)), store.get(), options.quiet);
}

}  // namespace samerun::cli
