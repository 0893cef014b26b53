#pragma once

#include <string>
#include <vector>

#include "sqlite.h"

namespace samerun::recorder {

inline constexpr std::int64_t kApplicationId = 0x53525231;  // "SRR1"
inline constexpr std::int64_t kSchemaVersion = 2;

enum class FileKind { kRecord, kStaging };
enum class FileState { kEmpty, kOlder, kCurrent };

std::string schema_text(FileKind kind);  ///< Of schema.sql, all of it or what staging files hold.

/// What the file is, told by reading only. Throws kStorage for a newer schema or a database that is not Samerun's.
FileState check_schema(Database& database);
/// As check_schema() for the file at `path`, opened for reading, so that a file we must not touch keeps its bytes.
FileState check_schema_of(const std::string& path);

/// Makes the tables when there are none, and adds what a file of an older version lacks; in one transaction: of two
/// processes one does it, the other finds it done. Nothing that was there changes.
void create_schema(Database& database, FileKind kind);
/// Journal mode WAL or DELETE; waits for its turn up to 10 s.
void set_journal_mode(Database& database, const std::string& mode);

/// The tables that stand in staging files and are folded into the record.
const std::vector<std::string>& folded_tables();
/// Column names of `table` in order, as the file has them.
std::vector<std::string> columns_of(Database& database, const std::string& table);

}  // namespace samerun::recorder
