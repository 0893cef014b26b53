#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sqlite.h"

namespace samerun::recorder {

/// Copies staging files into a record. Keeps prepared statements of the record between calls.
/// How far each file has been copied stands in the record (fold_mark) and changes in the transaction that adds the rows:
/// a fold that is repeated adds nothing, one that is killed never happened.
class Folder {
 public:
  explicit Folder(Database& record) : record_(record) {}

  /// Copies what is new in all files of `folder` in one transaction; returns the number of rows added. A file that is
  /// damaged gives what can be read of it, and an event "staging-damaged". `last`: no writer is expected any more, so a
  /// file without tables is an event ("staging-empty") too.
  std::int64_t fold(std::int64_t run, const std::string& folder, bool last);

 private:
  struct Table {
    std::string name, select;
    Statement insert;
  };
  std::int64_t fold_file(std::int64_t run, const std::string& path, bool last);
  void fold_table(std::int64_t run, Database& source, const std::string& file, Table& table, std::int64_t& added);
  /// Throws what the record itself could not do; notes what is wrong with the staging file.
  void judge(std::int64_t run, const std::string& path, const SqliteError& error, bool last);
  void note(std::int64_t run, const std::string& kind, const std::string& path, const std::string& what);  ///< Once a file.
  std::vector<Table>& tables();

  Database& record_;
  std::vector<Table> tables_;
};

/// True when no process has a staging file of `folder` open, so that the folder may go.
bool no_writer_left(const std::string& folder);

/// Kinds of events that say that rows are missing.
inline constexpr const char* kMissingRowsEvents = "('staging-damaged', 'record-stopped', 'observer-detached')";

}  // namespace samerun::recorder
