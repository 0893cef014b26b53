#include <algorithm>
#include <fstream>
#include <iterator>

#include "record_fixture.h"
#include "schema.h"

namespace samerun::recorder {
namespace {

class SchemaTest : public RecordFixture {
 protected:
  static std::vector<std::string> tables_of(Database& database) {
    Statement find(database, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name");
    std::vector<std::string> names;
    while (find.step()) names.push_back(find.text());
    return names;
  }
};

TEST_F(SchemaTest, EveryTableAndColumnIsInTheContract) {
  std::ifstream file(RECORDER_SCHEMA_MD);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  { Store store(record()); }
  Database database(record() + "/samerun.db", Database::Mode::kReadOnly);
  const auto tables = tables_of(database);
  EXPECT_GE(tables.size(), 24U);
  for (const std::string& table : tables) {
    const auto heading = page.find(table == "evidence" ? "### verdict, evidence " : table == "verdict" ? "### verdict, " : "### " + table + " ");
    ASSERT_NE(heading, std::string::npos) << table;
    const std::string section = page.substr(heading, page.find("\n##", heading + 3) - heading);
    for (const std::string& column : columns_of(database, table)) {
      EXPECT_NE(section.find('`' + column + '`'), std::string::npos) << table << "." << column;
    }
  }
}

TEST_F(SchemaTest, EveryRealColumnIsFollowedByItsKind) {
  { Store store(record()); }
  Database database(record() + "/samerun.db", Database::Mode::kReadOnly);
  for (const std::string& table : tables_of(database)) {
    Statement columns(database, "SELECT type, name FROM pragma_table_info(?1) ORDER BY cid");
    columns.bind(table);
    std::string real;
    while (columns.step()) {
      const std::string type = columns.text(), name = columns.text();
      if (!real.empty()) {
        EXPECT_EQ(name, real + "_kind") << table;
      }
      real = type == "REAL" ? name : "";
    }
    EXPECT_EQ(real, "") << table;
  }
}

TEST_F(SchemaTest, StagingFilesHoldTheFoldedTablesAndNoOther) {
  std::filesystem::create_directories(record());
  { StagingWriter writer(staging_options(record())); }
  Database database(record() + "/" + staging_file_name(0), Database::Mode::kReadOnly);
  auto expected = folded_tables();
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(tables_of(database), expected);
  EXPECT_EQ(database.integer("PRAGMA application_id"), 0x53525231);
  EXPECT_EQ(database.integer("PRAGMA user_version"), 2);
}

}  // namespace
}  // namespace samerun::recorder
