#include "schema_upgrade.h"

#include <algorithm>

namespace samerun::recorder {
namespace {

struct Column {
  std::string name, type, initial;
  bool not_null = false;
};

struct Table {
  std::string name, sql;
  std::vector<std::string> there;  ///< Columns that the file has; empty where it has no such table.
  std::vector<Column> missing;     ///< Of a table that is there.
};

struct Missing {
  std::vector<Table> tables;         ///< That lack something, or are lacking.
  std::vector<std::string> indexes;  ///< Their SQL.
};

Table compare_table(Database& wanted, Database& file, const std::string& name, const std::string& sql) {
  Table table{name, sql, columns_of(file, name), {}};
  Statement columns(wanted, "SELECT name, type, coalesce(dflt_value, 'NULL'), \"notnull\" FROM pragma_table_info(?1) ORDER BY cid");
  columns.bind(name);
  while (columns.step()) {
    Column column{columns.text(), columns.text(), columns.text(), columns.flag()};
    if (std::find(table.there.begin(), table.there.end(), column.name) == table.there.end()) table.missing.push_back(std::move(column));
  }
  return table;
}

Missing missing_from(Database& file, FileKind kind) {
  Database wanted(":memory:", Database::Mode::kCreate);
  wanted.execute(schema_text(kind));
  Missing missing;
  Statement objects(wanted, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid");
  Statement known(file, "SELECT 1 FROM sqlite_schema WHERE name=?");
  while (objects.step()) {
    const std::string type = objects.text(), name = objects.text(), sql = objects.text();
    if (type == "table") {
      Table table = compare_table(wanted, file, name, sql);
      if (!table.missing.empty()) missing.tables.push_back(std::move(table));
    } else if (!known.bind(name).step()) {
      missing.indexes.push_back(sql);
    }
  }
  return missing;
}

}  // namespace

void add_what_is_missing(Database& database, FileKind kind) {
  const Missing missing = missing_from(database, kind);
  for (const Table& table : missing.tables) {
    if (table.there.empty()) {
      database.execute(table.sql);
      continue;
    }
    for (const Column& column : table.missing) {
      database.execute("ALTER TABLE " + table.name + " ADD COLUMN " + column.name + " " + column.type + (column.not_null ? " NOT NULL" : "") +
                       " DEFAULT " + column.initial);
    }
  }
  for (const std::string& sql : missing.indexes) database.execute(sql);
}

void stand_in_for_what_is_missing(Database& database, FileKind kind) {
  const Missing missing = missing_from(database, kind);
  database.execute("PRAGMA temp_store = MEMORY");
  for (const Table& table : missing.tables) {
    if (table.there.empty()) {
      database.execute("CREATE TEMP " + table.sql.substr(std::string("CREATE ").size()));
      continue;
    }
    std::string columns = "rowid AS rowid";
    for (const std::string& name : table.there) columns += ", " + name;
    for (const Column& column : table.missing) columns += ", " + column.initial + " AS " + column.name;
    database.execute("CREATE TEMP VIEW " + table.name + " AS SELECT " + columns + " FROM main." + table.name);
  }
}

}  // namespace samerun::recorder
