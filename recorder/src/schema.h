#pragma once

#include <string>
#include <vector>

#include "sqlite.h"

namespace samerun::recorder {

inline constexpr std::int64_t kApplicationId = 0x53525231;  // "SRR1"
inline constexpr std::int64_t kSchemaVersion = 1;

enum class FileKind { kRecord, kStaging };
enum class FileState { kEmpty, kCurrent };

const char* schema_text();  ///< The text of schema.sql.

/// What the file is, told by reading only. Throws kStorage for a newer schema or a database that is not Samerun's.
FileState check_schema(Database& database);
/// As check_schema() for the file at `path`, opened for reading, so that a file we must not touch keeps its bytes.
FileState check_schema_of(const std::string& path);

/// Makes the tables when there are none, in one transaction: of two processes one makes them, the other finds them.
void create_schema(Database& database, FileKind kind);
/// Journal mode WAL or DELETE; waits for its turn up to 10 s.
void set_journal_mode(Database& database, const std::string& mode);

/// The tables that stand in staging files and are folded into the record.
const std::vector<std::string>& folded_tables();
/// Column names of `table` in order, as the file has them.
std::vector<std::string> columns_of(Database& database, const std::string& table);

}  // namespace samerun::recorder
