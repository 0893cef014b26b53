#include "samerun/recorder/reader.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "liveness.h"
#include "reader_impl.h"
#include "samerun/core/error.h"

namespace samerun::recorder {
namespace {

#define SAMERUN_RUN_COLUMNS                                                                                                                     \
  "SELECT id, group_id, role, world_size, argv, cwd, program_digest, status, exit_code, message, started_utc_ns, ended_utc_ns, complete, pid, " \
  "pid_start, host, boot_id, heartbeat_utc_ns, parent_id FROM run "

std::vector<std::string> argv_from(const std::string& text) {
  std::vector<std::string> argv;
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) throw Error(ErrorCode::kCorruption, "the arguments of a run in the record are no JSON array", {{"argv", text.substr(0, 80)}});
  for (const auto& item : json) argv.push_back(item.is_string() ? item.get<std::string>() : item.dump());
  return argv;
}

RunRow run_row(Statement& s) {
  RunRow row;
  row.id = s.integer();
  row.group_id = s.text();
  row.role = s.text();
  row.world_size = s.small();
  row.argv = argv_from(s.text());
  row.cwd = s.text();
  row.program_digest = s.text();
  row.status = s.text();
  row.exit_code = s.maybe_small();
  row.message = s.text();
  row.started_utc_ns = s.integer();
  row.ended_utc_ns = s.maybe_integer();
  row.complete = s.flag();
  const LauncherMark launcher = read_launcher(s);
  row.host = launcher.host;
  row.heartbeat_utc_ns = launcher.heartbeat_utc_ns;
  row.parent_id = s.maybe_integer();
  if ((row.status == "starting" || row.status == "running") && launcher_gone(launcher)) row.status = "lost";
  return row;
}

}  // namespace

Reader::Reader(const std::string& folder_or_file) : impl_(std::make_unique<Impl>(folder_or_file)) {}
Reader::~Reader() = default;

std::vector<RunRow> Reader::runs() const {
  return impl_->rows<RunRow>(SAMERUN_RUN_COLUMNS "ORDER BY id", run_row);
}

std::optional<RunRow> Reader::run(std::int64_t id) const {
  auto rows = impl_->rows<RunRow>(SAMERUN_RUN_COLUMNS "WHERE id=?", run_row, id);
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

std::vector<RunRow> Reader::group(const std::string& group_id) const {
  return impl_->rows<RunRow>(SAMERUN_RUN_COLUMNS "WHERE group_id=? ORDER BY id", run_row, group_id);
}

std::vector<RankRow> Reader::ranks(std::int64_t run) const {
  const auto make = [](Statement& s) {
    RankRow row;
    row.rank = s.small();
    row.world_size = s.small();
    row.pid = s.integer();
    row.host = s.text();
    row.build_id = s.text();
    row.status = s.text();
    row.steps = s.maybe_integer().value_or(-1);
    row.message = s.text();
    row.utc_ns = s.integer();
    return row;
  };
  return impl_->rows<RankRow>("SELECT rank, world_size, pid, host, build_id, status, steps, message, utc_ns FROM rank WHERE run=? ORDER BY rank",
                              make, run);
}

std::vector<RankExitRow> Reader::exits(std::int64_t run) const {
  const auto make = [](Statement& s) {
    RankExitRow row;
    row.rank = s.small();
    row.exit_code = s.maybe_small();
    row.signal = s.maybe_small();
    row.stderr_tail = s.text();
    row.first_failure = s.flag();
    return row;
  };
  return impl_->rows<RankExitRow>("SELECT rank, exit_code, signal, stderr_tail, first_failure FROM rank_exit WHERE run=? ORDER BY rank", make, run);
}

std::vector<SettingRow> Reader::settings(std::int64_t run) const {
  const auto make = [](Statement& s) {
    SettingRow row;
    row.rank = s.small();
    row.setting.key = s.text();
    row.setting.value = s.text();
    row.setting.origin = s.text();
    return row;
  };
  return impl_->rows<SettingRow>("SELECT rank, key, value, origin FROM setting WHERE run=? ORDER BY rank, key", make, run);
}

std::vector<EnvironmentRow> Reader::environment(std::int64_t run) const {
  const auto make = [](Statement& s) {
    EnvironmentRow row;
    row.rank = s.small();
    row.fact.key = s.text();
    row.fact.value = s.text();
    row.fact.source = s.text();
    row.fact.why_null = s.text();
    return row;
  };
  return impl_->rows<EnvironmentRow>("SELECT rank, key, value, source, why_null FROM environment WHERE run=? ORDER BY rank, key", make, run);
}

std::optional<CodeRow> Reader::code(std::int64_t run) const {
  const auto make = [](Statement& s) {
    CodeRow row;
    row.head = s.text();
    row.branch = s.text();
    row.remote = s.text();
    row.patch_sha256 = s.text();
    row.untracked = s.text();
    row.why_null = s.text();
    const auto dirty = s.maybe_integer();
    if (dirty) row.dirty = *dirty != 0;
    return row;
  };
  auto rows = impl_->rows<CodeRow>("SELECT head, branch, remote, patch_sha256, untracked, why_null, dirty FROM code WHERE run=?", make, run);
  if (rows.empty()) return std::nullopt;
  return std::move(rows.front());
}

std::vector<EventRow> Reader::events(std::int64_t run) const {
  const auto make = [](Statement& s) {
    EventRow row;
    row.rank = s.small();
    row.utc_ns = s.integer();
    row.event.step = s.integer();
    row.event.severity = s.text();
    row.event.kind = s.text();
    row.event.text = s.text();
    return row;
  };
  return impl_->rows<EventRow>("SELECT rank, utc_ns, step, severity, kind, text FROM event WHERE run=? ORDER BY utc_ns, rowid", make, run);
}

std::int64_t Reader::dropped_rows(std::int64_t run) const {
  const auto rows = impl_->rows<std::int64_t>(
      "SELECT coalesce(sum(rows), 0) FROM dropped WHERE run=?", [](Statement& s) { return s.integer(); }, run);
  return rows.front();
}

}  // namespace samerun::recorder
