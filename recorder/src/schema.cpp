#include "schema.h"

#include <chrono>
#include <thread>

#include "schema_upgrade.h"

namespace samerun::recorder {
namespace {

[[noreturn]] void refuse_newer(const std::string& path, std::int64_t version) {
  throw Error(ErrorCode::kStorage, "record " + path + " has schema version " + std::to_string(version) + ", this samerun knows up to " +
                                       std::to_string(kSchemaVersion) + ": use a newer samerun");
}

}  // namespace

FileState check_schema(Database& database) {
  // One statement, hence one moment: another process may be making the tables right now.
  Statement read(database,
                 "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id), "
                 "(SELECT count(*) FROM sqlite_schema)");
  read.step();
  const std::int64_t version = read.integer(), application = read.integer(), objects = read.integer();
  read.reset();
  if (application == kApplicationId) {
    if (version > kSchemaVersion) refuse_newer(database.path(), version);
    if (version == kSchemaVersion) return FileState::kCurrent;
    if (version > 0) return FileState::kOlder;
  }
  if (application == 0 && version == 0 && objects == 0) return FileState::kEmpty;
  throw Error(ErrorCode::kStorage, "file " + database.path() + " is a database, but not a Samerun record: nothing was written; name another folder");
}

FileState check_schema_of(const std::string& path) {
  Database database(path, Database::Mode::kReadOnly);
  return check_schema(database);
}

void create_schema(Database& database, FileKind kind) {
  Transaction transaction(database);
  switch (check_schema(database)) {
    case FileState::kCurrent:
      return;  // Another process made it while we waited.
    case FileState::kOlder:
      add_what_is_missing(database, kind);
      break;
    case FileState::kEmpty:
      database.execute(schema_text(kind));
  }
  database.execute("PRAGMA application_id = " + std::to_string(kApplicationId));
  database.execute("PRAGMA user_version = " + std::to_string(kSchemaVersion));
  transaction.commit();
}

void set_journal_mode(Database& database, const std::string& mode) {
  // Changing the mode needs the file for itself, and SQLite does not always consult the busy timeout for it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (;;) {
    try {
      if (database.text("PRAGMA journal_mode = " + mode) == mode) return;
    } catch (const SqliteError& error) {
      if (!error.busy() || std::chrono::steady_clock::now() > deadline) throw;
    }
    if (std::chrono::steady_clock::now() > deadline) return;  // Still safe, in the mode it has.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

const std::vector<std::string>& folded_tables() {
  static const std::vector<std::string> tables = {"rank",       "environment", "setting",    "dataset",    "shard",  "step",
                                                  "group_step", "tensor_name", "tensor",     "locked",     "metric", "sample_value",
                                                  "phase",      "run_phase",   "checkpoint", "state_leaf", "event",  "dropped"};
  return tables;
}

std::vector<std::string> columns_of(Database& database, const std::string& table) {
  Statement statement(database, "SELECT name FROM pragma_table_info(?1) ORDER BY cid");
  statement.bind(table);
  std::vector<std::string> columns;
  while (statement.step()) columns.push_back(statement.text());
  return columns;
}

}  // namespace samerun::recorder
