#include "samerun/recorder/store.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "code_version.h"
#include "environment_probe.h"
#include "file_system.h"
#include "fold.h"
#include "liveness.h"
#include "program_file.h"
#include "redact.h"
#include "reserve.h"
#include "samerun/core/clock.h"
#include "samerun/core/error.h"
#include "schema.h"
#include "sqlite.h"
#include "staging_folder.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

void make_folder(const std::string& folder) {
  std::error_code error;
  if (fs::create_directories(folder, error)) {
    std::ofstream(folder + "/.gitignore") << "*\n";  // A record is no part of the code that it describes.
  }
  if (error || !fs::is_directory(folder)) {
    throw Error(ErrorCode::kStorage, "cannot make the record's folder " + folder + " (" + (error ? error.message() : "it is not a folder") +
                                         "): give a folder that you may write, or set SAMERUN_DIR");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    throw Error(ErrorCode::kStorage, "the record's folder " + folder + " is not writable: change its permissions, or set SAMERUN_DIR");
  }
}

std::string checked_path(const std::string& folder) {
  make_folder(folder);
  const std::string path = folder + "/samerun.db";
  std::error_code error;
  if (!fs::exists(path, error) || fs::file_size(path, error) == 0) return path;
  try {
    check_schema_of(path);  // Refuses before anything could be written.
  } catch (const SqliteError& failure) {
    // After a crash the journal may have to be played back first, which only a writer can do; it is checked again then.
    if (!failure.read_only()) throw;
  }
  return path;
}

std::string json_of(const std::vector<std::string>& argv) {
  return nlohmann::json(argv).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

struct Store::Impl {
  explicit Impl(const std::string& where)
      : folder(fs::absolute(where).lexically_normal().string()),
        path(checked_path(folder)),
        reserve(folder),
        record(path, Database::Mode::kCreate),
        folder_of(record) {
    file_system = file_system_type(folder);
    network = is_network_file_system(file_system);
    if (check_schema(record) == FileState::kEmpty) record.execute("PRAGMA page_size = 16384");
    set_journal_mode(record, network ? "delete" : "wal");
    create_schema(record, FileKind::kRecord);
    record.execute(network ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  }

  void insert_code(std::int64_t run, const CodeVersion& code);
  void insert_environment(std::int64_t run, const std::vector<EnvironmentFact>& facts);
  std::string staging_path(std::int64_t run);
  void remove_staging(std::int64_t run);
  void finish(std::int64_t run, const std::string& status, std::optional<int> exit_code, const std::string& message);
  bool sweep_run(std::int64_t run);
  std::string fold_last(std::int64_t run);
  void commit_end(std::int64_t run, const std::string& status, int exit_code, const std::string& message, const std::vector<RankExit>& exits);

  std::string folder, path, file_system;
  Reserve reserve;
  bool network = false;
  Database record;
  Folder folder_of;
};

Store::Store(const std::string& folder) : impl_(std::make_unique<Impl>(folder)) {}

Store::~Store() {
  if (impl_->network) return;
  try {
    // One portable file, if no other process is using it; else the last to close does it.
    impl_->record.busy_timeout(0);
    impl_->record.execute("PRAGMA wal_checkpoint(TRUNCATE)");
    impl_->record.execute("PRAGMA journal_mode = DELETE");
  } catch (const Error&) {
  }
}

const std::string& Store::folder() const {
  return impl_->folder;
}
std::string Store::path() const {
  return impl_->path;
}

void Store::Impl::insert_code(std::int64_t run, const CodeVersion& code) {
  Statement insert(record, "INSERT INTO code VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  insert.run(run, code.head, code.branch, code.dirty, code.remote, code.patch, code.patch_sha256, code.untracked, code.why_null);
}

void Store::Impl::insert_environment(std::int64_t run, const std::vector<EnvironmentFact>& facts) {
  Statement insert(record, "INSERT OR REPLACE INTO environment VALUES (?, -1, ?, ?, ?, ?)");
  for (const EnvironmentFact& fact : facts) {
    const std::optional<std::string> value = fact.why_null.empty() ? std::optional(fact.value) : std::nullopt;
    insert.run(run, fact.key, value, fact.source, fact.why_null);
  }
}

std::int64_t Store::begin_run(const NewRun& run) {
  sweep();
  impl_->reserve.take();
  const LauncherMark launcher = this_process();
  // Slow work first, so that the write lock is held for a moment only.
  const CodeVersion code = read_code_version(run.cwd);
  const auto facts = probe_environment_for(impl_->folder);
  const std::string digest = run.argv.empty() ? std::string() : program_digest(run.argv.front(), run.cwd);

  Database& record = impl_->record;
  Transaction transaction(record);
  Statement insert(
      record,
      "INSERT INTO run (group_id, role, world_size, argv, cwd, program_digest, status, started_utc_ns, heartbeat_utc_ns, pid, host, boot_id, "
      "pid_start, parent_id) VALUES (?, ?, ?, ?, ?, ?, 'starting', ?, ?, ?, ?, ?, ?, ?)");
  insert.run(run.group_id, run.role, run.world_size, json_of(redacted_arguments(run.argv)), run.cwd, digest, launcher.heartbeat_utc_ns,
             launcher.heartbeat_utc_ns, launcher.pid, launcher.host, launcher.boot_id, launcher.pid_start, run.parent_id);
  const std::int64_t id = record.last_rowid();
  impl_->insert_code(id, code);
  impl_->insert_environment(id, facts);
  if (impl_->network) {
    Statement event(record, "INSERT INTO event VALUES (?, -1, ?, -1, 'warning', 'network-file-system', ?)");
    event.run(id, utc_now_ns(),
              "the record lies on " + impl_->file_system +
                  ": it is kept without a write-ahead log, which is slower; a local folder is better (SAMERUN_DIR)");
  }
  transaction.commit();
  return id;
}

void Store::heartbeat(std::int64_t run) {
  Statement update(impl_->record,
                   "UPDATE run SET heartbeat_utc_ns=?, status=CASE status WHEN 'starting' THEN 'running' ELSE status END "
                   "WHERE id=? AND status IN ('starting', 'running')");
  Transaction transaction(impl_->record);
  update.run(utc_now_ns(), run);
  transaction.commit();
}

std::string Store::Impl::staging_path(std::int64_t run) {
  Statement find(record, "SELECT staging FROM run WHERE id=?");
  find.bind(run);
  if (!find.step()) throw Error(ErrorCode::kInvalidArgument, "record " + path + " has no run " + std::to_string(run));
  const std::string stored = find.text();
  return stored.empty() ? std::string() : (fs::path(folder) / stored).string();
}

std::string Store::staging_folder(std::int64_t run) {
  const std::string known = impl_->staging_path(run);
  if (!known.empty()) return known;
  const StagingFolder made = make_staging_folder(impl_->folder, run, impl_->network);
  Transaction transaction(impl_->record);
  Statement update(impl_->record, "UPDATE run SET staging=? WHERE id=?");
  update.run(made.stored, run);
  transaction.commit();
  return made.path;
}

std::int64_t Store::fold(std::int64_t run) {
  const std::string staging = impl_->staging_path(run);
  return staging.empty() ? 0 : impl_->folder_of.fold(run, staging, false);
}

void Store::Impl::finish(std::int64_t run, const std::string& status, std::optional<int> exit_code, const std::string& message) {
  // A rank that never said how it ended failed if the launcher saw it fail, and is lost otherwise.
  Statement ranks(record,
                  "UPDATE rank SET status=CASE WHEN EXISTS (SELECT 1 FROM rank_exit e WHERE e.run=rank.run AND e.rank=rank.rank AND "
                  "(e.signal IS NOT NULL OR e.exit_code<>0)) THEN 'failed' ELSE 'lost' END WHERE run=? AND status='running'");
  ranks.run(run);
  Statement update(record, std::string("UPDATE run SET status=?2, exit_code=?3, message=?4, ended_utc_ns=?5, complete="
                                       "(SELECT count(DISTINCT rank)=run.world_size FROM rank WHERE rank.run=?1 AND rank.rank BETWEEN 0 AND "
                                       "run.world_size - 1 AND rank.status IN ('finished', 'stopped')) AND "
                                       "NOT EXISTS (SELECT 1 FROM dropped WHERE dropped.run=?1 AND dropped.rows>0) AND "
                                       "NOT EXISTS (SELECT 1 FROM event WHERE event.run=?1 AND event.kind IN ") +
                               kMissingRowsEvents + ") WHERE id=?1");
  update.run(run, status, exit_code, message, utc_now_ns());
}

void Store::Impl::remove_staging(std::int64_t run) {
  const std::string staging = staging_path(run);
  if (staging.empty() || !no_writer_left(staging)) return;
  Statement damaged(record, "SELECT 1 FROM event WHERE run=? AND kind='staging-damaged'");
  damaged.bind(run);
  if (damaged.step()) return;  // Somebody may want to look at the files.
  std::error_code error;
  fs::remove_all(staging, error);
  if (error) return;  // The next sweep tries again.
  Transaction transaction(record);
  Statement update(record, "UPDATE run SET staging='' WHERE id=?");
  update.run(run);
  transaction.commit();
}

/// Why the last rows are not in the record; empty when they are.
std::string Store::Impl::fold_last(std::int64_t run) {
  const std::string staging = staging_path(run);
  if (staging.empty()) return {};
  try {
    folder_of.fold(run, staging, true);
  } catch (const SqliteError& error) {
    reserve.give_up();  // For the row that says how the run ended; its staging files keep the rest.
    return std::string("rows still lie in ") + staging + ": " + error.what();
  }
  return {};
}

void Store::Impl::commit_end(std::int64_t run, const std::string& status, int exit_code, const std::string& message,
                             const std::vector<RankExit>& exits) {
  Transaction transaction(record);
  Statement insert(record, "INSERT OR REPLACE INTO rank_exit VALUES (?, ?, ?, ?, ?, ?)");
  for (const RankExit& exit : exits) insert.run(run, exit.rank, exit.exit_code, exit.signal, exit.stderr_tail, exit.first_failure);
  finish(run, status, exit_code, message);
  transaction.commit();
}

void Store::end_run(std::int64_t run, const std::string& status, int exit_code, const std::string& message, const std::vector<RankExit>& exits) {
  const std::string left = impl_->fold_last(run);
  const std::string text = left.empty() || !message.empty() ? message : left;
  // Staging files go once this is on the disk: all that was committed before is made durable with it.
  impl_->record.execute("PRAGMA synchronous = FULL");
  try {
    impl_->commit_end(run, status, exit_code, text, exits);
  } catch (const SqliteError&) {
    if (!impl_->reserve.give_up()) throw;
    impl_->commit_end(run, status, exit_code, text, exits);
  }
  if (left.empty()) impl_->remove_staging(run);
  if (!impl_->network) impl_->record.execute("PRAGMA synchronous = NORMAL");
}

bool Store::Impl::sweep_run(std::int64_t run) {
  Statement find(record, "SELECT status, pid, pid_start, host, boot_id, heartbeat_utc_ns FROM run WHERE id=?");
  find.bind(run);
  if (!find.step()) return false;
  const std::string status = find.text();
  const LauncherMark launcher = read_launcher(find);
  find.reset();
  const bool open = status == "starting" || status == "running";
  if (!launcher_gone(launcher)) return false;  // It folds and tidies up by itself.
  const std::string staging = staging_path(run);
  const bool ours = launcher.host == host_name();  // Another host's staging files may be out of reach: left to it.
  if (!staging.empty() && ours) folder_of.fold(run, staging, true);
  if (open) {
    record.execute("PRAGMA synchronous = FULL");
    Transaction transaction(record);
    finish(run, "lost", std::nullopt, "the launcher ended without a word (killed, or the machine went down); rows are kept up to the last commit");
    transaction.commit();
  }
  if (ours) remove_staging(run);
  return open;
}

std::vector<std::int64_t> Store::sweep() {
  Database& record = impl_->record;
  std::vector<std::int64_t> candidates, lost;
  {
    Statement find(record,
                   "SELECT id FROM run WHERE status IN ('starting', 'running') OR (staging<>'' AND NOT EXISTS "
                   "(SELECT 1 FROM event WHERE event.run=run.id AND event.kind='staging-damaged')) ORDER BY id");
    while (find.step()) candidates.push_back(find.integer());
  }
  for (const std::int64_t run : candidates) {
    if (impl_->sweep_run(run)) lost.push_back(run);
  }
  if (!impl_->network) record.execute("PRAGMA synchronous = NORMAL");
  return lost;
}

std::int64_t Store::add_verdict(const VerdictRow& v) {
  Database& record = impl_->record;
  Transaction transaction(record);
  Statement insert(record, "INSERT INTO verdict (group_id, candidate, reference, word, summary, created_utc_ns) VALUES (?, ?, ?, ?, ?, ?)");
  insert.run(v.group_id, v.candidate, v.reference, v.word, v.summary, utc_now_ns());
  const std::int64_t id = record.last_rowid();
  Statement evidence(record, "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  std::int64_t ordinal = 0;
  for (const EvidenceRow& e : v.evidence) {
    evidence.run(id, ordinal++, e.check, e.word, e.stage, e.tensor, e.step, e.rank, Real{e.value}, Real{e.limit}, e.text);
  }
  transaction.commit();
  return id;
}

std::string default_folder() {
  const char* folder = std::getenv("SAMERUN_DIR");
  return folder != nullptr && *folder != '\0' ? folder : ".samerun";
}

}  // namespace samerun::recorder
