#include "fold.h"

#include <sqlite3.h>

#include <algorithm>
#include <filesystem>

#include "samerun/core/clock.h"
#include "schema.h"
#include "schema_upgrade.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDamaged = "could not be read in full; what could be read is in the record, the file is kept: ";

std::vector<std::string> staging_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;  // A folder that is gone has been folded by another process.
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("rank-") && name.ends_with(".db")) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// The run's id is the record's, whatever the rank knew of it.
void copy_row(sqlite3_stmt* from, sqlite3_stmt* to) {
  const int columns = sqlite3_column_count(from);
  for (int column = 1; column < columns; ++column) sqlite3_bind_value(to, column + 1, sqlite3_column_value(from, column));
}

}  // namespace

std::vector<Folder::Table>& Folder::tables() {
  if (!tables_.empty()) return tables_;
  for (const std::string& name : folded_tables()) {
    std::string columns, marks;
    for (const std::string& column : columns_of(record_, name)) {
      if (column == "run") continue;
      columns += ", " + column;
      marks += ", ?";
    }
    tables_.push_back({name, "SELECT rowid" + columns + " FROM " + name + " WHERE rowid > ? ORDER BY rowid",
                       Statement(record_, "INSERT OR REPLACE INTO " + name + " (run" + columns + ") VALUES (?1" + marks + ")")});
  }
  return tables_;
}

std::int64_t Folder::fold(std::int64_t run, const std::string& folder, bool last) {
  const auto files = staging_files(folder);
  if (files.empty()) return 0;
  tables();
  Transaction transaction(record_);
  std::int64_t added = 0;
  for (const std::string& file : files) added += fold_file(run, file, last);
  transaction.commit();
  return added;
}

std::int64_t Folder::fold_file(std::int64_t run, const std::string& path, bool last) {
  const std::string file = fs::path(path).filename().string();
  std::int64_t added = 0;
  try {
    // Not read-only: after a kill the first to open the file has to bring its write-ahead log in order.
    Database source(path, Database::Mode::kReadWrite);
    if (!last) source.busy_timeout(100);  // What is busy now comes with the next fold.
    const FileState state = check_schema(source);
    if (state == FileState::kOlder) stand_in_for_what_is_missing(source, FileKind::kStaging);
    if (state == FileState::kEmpty) {
      if (last) note(run, "staging-empty", path, "holds nothing: its rank was stopped before it could record");
      return 0;
    }
    source.execute("BEGIN");  // One snapshot for all tables.
    for (Table& table : tables()) {
      try {
        fold_table(run, source, file, table, added);
      } catch (const SqliteError& error) {
        judge(run, path, error, last);  // The other tables may be whole.
      }
    }
  } catch (const SqliteError& error) {
    judge(run, path, error, last);
  } catch (const Error& error) {
    note(run, "staging-damaged", path, kDamaged + std::string(error.what()));
  }
  return added;
}

void Folder::judge(std::int64_t run, const std::string& path, const SqliteError& error, bool last) {
  if (error.file() == record_.path() && !error.constraint()) throw error;  // Not the staging file's fault: fold again later.
  if ((error.busy() && !last) || !fs::exists(path)) return;
  note(run, "staging-damaged", path, kDamaged + std::string(error.what()));
}

void Folder::fold_table(std::int64_t run, Database& source, const std::string& file, Table& table, std::int64_t& added) {
  Statement read_mark(record_, "SELECT last_rowid FROM fold_mark WHERE run=? AND file=? AND table_name=?");
  read_mark.bind(run, file, table.name);
  const std::int64_t mark = read_mark.step() ? read_mark.integer() : 0;
  read_mark.reset();

  Statement rows(source, table.select);
  rows.bind(mark);
  std::int64_t newest = mark;
  const auto write_mark = [&] {
    if (newest == mark) return;
    Statement write(record_, "INSERT OR REPLACE INTO fold_mark VALUES (?, ?, ?, ?)");
    write.run(run, file, table.name, newest);
  };
  try {
    while (rows.step()) {
      newest = rows.integer();
      table.insert.bind(run);
      copy_row(rows.handle(), table.insert.handle());
      table.insert.step();
      ++added;
    }
  } catch (const SqliteError&) {
    write_mark();
    throw;
  }
  table.insert.reset();
  write_mark();
}

void Folder::note(std::int64_t run, const std::string& kind, const std::string& path, const std::string& what) {
  const std::string file = "staging file " + path + " ";
  Statement known(record_, "SELECT 1 FROM event WHERE run=? AND kind=? AND instr(text, ?)");
  known.bind(run, kind, file);
  if (known.step()) return;
  Statement insert(record_, "INSERT INTO event VALUES (?, -1, ?, -1, 'error', ?, ?)");
  insert.run(run, utc_now_ns(), kind, file + what);
}

bool no_writer_left(const std::string& folder) {
  for (const std::string& file : staging_files(folder)) {
    try {
      // Leaving WAL needs the file for oneself: refused while any process, dead ones excepted, has it open.
      Database database(file, Database::Mode::kReadWrite);
      database.busy_timeout(0);
      if (database.text("PRAGMA journal_mode = DELETE") == "wal") return false;
    } catch (const SqliteError& error) {
      if (error.busy()) return false;
    }
  }
  return true;
}

}  // namespace samerun::recorder
