#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "record_access.h"
#include "run_settings.h"
#include "samerun/recorder/reader.h"
#include "table.h"

namespace samerun::cli {
namespace {

std::int64_t duration_ns(const recorder::RunRow& run) {
  return run.ended_utc_ns.value_or(run.heartbeat_utc_ns) - run.started_utc_ns;
}

std::string as_text(const std::vector<recorder::RunRow>& runs) {
  if (runs.empty()) return "no runs recorded\n";
  std::vector<std::vector<std::string>> rows{{"run", "pair", "role", "ranks", "status", "started (UTC)", "duration", "program"}};
  for (const recorder::RunRow& run : runs) {
    rows.push_back({std::to_string(run.id), run.group_id.empty() ? "-" : run.group_id, run.role, std::to_string(run.world_size), run.status,
                    utc_text(run.started_utc_ns), duration_text(duration_ns(run)), command_text(run.argv)});
  }
  return table_text(rows);
}

std::string as_json(const std::vector<recorder::RunRow>& runs) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const recorder::RunRow& run : runs) {
    nlohmann::ordered_json entry;
    entry["run"] = run.id;
    entry["group"] = run.group_id;
    entry["role"] = run.role;
    entry["world_size"] = run.world_size;
    entry["status"] = run.status;
    entry["exit_code"] = run.exit_code ? nlohmann::ordered_json(*run.exit_code) : nlohmann::ordered_json(nullptr);
    entry["message"] = run.message;
    entry["started_utc_ns"] = run.started_utc_ns;
    entry["duration_ns"] = duration_ns(run);
    entry["complete"] = run.complete;
    entry["argv"] = run.argv;
    entry["cwd"] = run.cwd;
    json.push_back(std::move(entry));
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

int run_runs(const RunsOptions& options) {
  const std::string record = resolve_record_dir(options.record_dir);
  refresh_record(record);
  const std::vector<recorder::RunRow> runs = recorder::Reader(record).runs();
  std::fputs((options.json ? as_json(runs) : as_text(runs)).c_str(), stdout);
  return 0;
}

}  // namespace samerun::cli
