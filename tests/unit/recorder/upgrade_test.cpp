#include <fstream>
#include <iterator>

#include "child_process.h"
#include "record_fixture.h"
#include "schema.h"

// Records and staging files of version 1, made from the text that its schema had.
namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

constexpr const char* kStagedRows = R"(
INSERT INTO rank VALUES (1, 0, 1, 0, 44, 'host', 'build', 5, 6, 'finished', 2, '');
INSERT INTO setting VALUES (1, 0, 'seed', '7', 'argument');
INSERT INTO metric VALUES (1, 0, 4, 1, 'accuracy', 0.5, 0, 'logged'), (1, 0, 5, 1, 'loss', NULL, 2, 'logged');
INSERT INTO event VALUES (1, 0, 9, 3, 'warning', 'threads', 'two');
INSERT INTO tensor_name VALUES (1, 0, 0, 'weight', 'float32', '[2]', 2);
INSERT INTO tensor VALUES (1, 0, 3, 'raw', 0, 0, -1, '000102030405060708090a0b0c0d0e0f', 1.5, 0, -1, 0, x'000000000000F03F', '');
)";

constexpr const char* kRecordRows = R"(
INSERT INTO run VALUES (1, 'pair-1', 'candidate', 1, '["train"]', '/', '', 'finished', 0, '', 10, 20, 20, 44, 'host', 'boot', 3, '', 1);
INSERT INTO rank_exit VALUES (1, 0, 0, NULL, 'last words', 0);
INSERT INTO verdict VALUES (1, 'pair-1', 1, 1, 'same', 'same: as before', 30);
INSERT INTO evidence VALUES (1, 0, 'clip', 'same', '', '', -1, -1, 0, 0, NULL, 2, 'norms');
)";

class UpgradeTest : public RecordFixture {
 protected:
  std::string file() const { return record() + "/samerun.db"; }

  static void make(const std::string& path, FileKind kind, const std::string& rows) {
    fs::create_directories(fs::path(path).parent_path());
    std::string sql = text_of(RECORDER_SCHEMA_1_SQL);
    if (kind == FileKind::kStaging) sql.resize(sql.find("-- ===="));
    Database(path, Database::Mode::kCreate).execute(sql + rows + "PRAGMA application_id = 0x53525231; PRAGMA user_version = 1;");
  }
  void make_record() { make(file(), FileKind::kRecord, std::string(kStagedRows) + kRecordRows); }

  static std::vector<std::string> column(Database& database, const std::string& sql) {
    Statement statement(database, sql);
    std::vector<std::string> values;
    while (statement.step()) values.push_back(statement.text());
    return values;
  }
  /// Every row of every table, by the columns that version 1 has.
  std::vector<std::string> rows_of(Database& database) {
    make(folder_ + "/shape/samerun.db", FileKind::kRecord, "");
    Database shape(folder_ + "/shape/samerun.db", Database::Mode::kReadWrite);
    std::vector<std::string> rows;
    for (const std::string& table : column(shape, "SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name")) {
      std::string values = "'" + table + "'";
      for (const std::string& name : columns_of(shape, table)) values += " || ' ' || quote(" + name + ")";
      for (std::string& row : column(database, "SELECT " + values + " FROM " + table + " ORDER BY rowid")) rows.push_back(std::move(row));
    }
    fs::remove_all(folder_ + "/shape");
    return rows;
  }
  static std::vector<std::string> shape_of(Database& database) {
    std::vector<std::string> shape = column(database, "SELECT type || ' ' || name FROM sqlite_schema ORDER BY type, name");
    for (const std::string& table : column(database, "SELECT name FROM sqlite_schema WHERE type='table' ORDER BY name")) {
      const std::string sql = "SELECT '" + table + " ' || name || ' ' || type || ' ' || \"notnull\" || ' ' || coalesce(dflt_value, 'NULL') ";
      for (std::string& line : column(database, sql + "FROM pragma_table_info('" + table + "') ORDER BY cid")) shape.push_back(std::move(line));
    }
    return shape;
  }
};

TEST_F(UpgradeTest, ARecordOfVersion1IsReadAsItIs) {
  make_record();
  const std::string before = text_of(file());
  {
    const Reader reader(record());
    EXPECT_EQ(reader.runs().at(0).role, "candidate");
    EXPECT_FALSE(reader.runs().at(0).parent_id);
    EXPECT_EQ(reader.ranks(1).at(0).steps, 2);
    const auto metrics = reader.metrics(1);
    ASSERT_EQ(metrics.size(), 2U);
    EXPECT_EQ(metrics[0].metric.value, 0.5);
    EXPECT_EQ(metrics[0].metric.purpose, "");
    EXPECT_EQ(metrics[0].metric.pass, -1);
    EXPECT_EQ(metrics[0].metric.numerator, 0);
    EXPECT_EQ(metrics[0].metric.rows, -1);
    EXPECT_EQ(metrics[1].metric.name, "loss");
    int tensors = 0;
    reader.tensors(1, stage::kRaw, [&](const TensorRow&) { ++tensors; });
    EXPECT_EQ(tensors, 1);
    EXPECT_EQ(reader.verdicts("pair-1").at(0).evidence.at(0).text, "norms");
    EXPECT_TRUE(reader.sample_values(1).empty());
    EXPECT_TRUE(reader.phases(1).empty());
    EXPECT_TRUE(reader.run_phases(1).empty());
    EXPECT_TRUE(reader.checkpoints(1).empty());
    EXPECT_TRUE(reader.state_leaves(1).empty());
  }
  EXPECT_EQ(text_of(file()), before);
}

TEST_F(UpgradeTest, AWriterBringsARecordToThisVersionAndKeepsEveryRow) {
  make_record();
  std::vector<std::string> before;
  {
    Database database(file(), Database::Mode::kReadWrite);
    before = rows_of(database);
  }
  ASSERT_EQ(before.size(), 11U);
  { Store store(record()); }
  { Store store(folder_ + "/new"); }
  Database upgraded(file(), Database::Mode::kReadOnly), made(folder_ + "/new/samerun.db", Database::Mode::kReadOnly);
  EXPECT_EQ(upgraded.integer("PRAGMA user_version"), kSchemaVersion);
  EXPECT_EQ(upgraded.integer("PRAGMA application_id"), kApplicationId);
  EXPECT_EQ(rows_of(upgraded), before);
  EXPECT_EQ(shape_of(upgraded), shape_of(made));
  EXPECT_EQ(upgraded.text("PRAGMA integrity_check"), "ok");
}

TEST_F(UpgradeTest, ARunGoesOnFromARunOfVersion1InItsRecord) {
  make_record();
  Store store(record());
  NewRun next = new_run();
  next.parent_id = 1;
  const std::int64_t run = store.begin_run(next);
  StagingWriter writer(staging_options(store.staging_folder(run)));
  writer.on_rank_start(rank_start(0));
  writer.on_metric({4, 1, "accuracy", 0.75, "mean", "evaluation", 2, 3, 4, 4});
  writer.on_run_end({5, "finished", ""});
  store.end_run(run, "finished", 0, "", {});
  const Reader reader(record());
  EXPECT_EQ(reader.run(run)->parent_id, 1);
  EXPECT_EQ(reader.metrics(run).at(0).metric.pass, 2);
  EXPECT_EQ(reader.metrics(1).size(), 2U);
}

TEST_F(UpgradeTest, OfTwoWritersOneUpgradesAndBothRecord) {
  make_record();
  ChildProcess first({RECORDER_HELPER, "runs", record(), "3"}), second({RECORDER_HELPER, "runs", record(), "3"});
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(second.wait(), 0);
  EXPECT_EQ(Reader(record()).runs().size(), 7U);
}

TEST_F(UpgradeTest, AStagingFileOfVersion1IsFolded) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run());
  make(store.staging_folder(run) + "/rank-0000.db", FileKind::kStaging, kStagedRows);
  store.end_run(run, "finished", 0, "", {});
  const Reader reader(record());
  EXPECT_TRUE(reader.events(run).size() == 1 && reader.events(run)[0].event.kind == "threads") << "nothing is said to be damaged";
  const auto metrics = reader.metrics(run);
  ASSERT_EQ(metrics.size(), 2U);
  EXPECT_EQ(metrics[0].metric.value, 0.5);
  EXPECT_EQ(metrics[0].metric.rows, -1);
  EXPECT_EQ(reader.ranks(run).at(0).steps, 2);
  EXPECT_TRUE(reader.run(run)->complete);
}

TEST_F(UpgradeTest, ARankContinuesItsStagingFileOfVersion1) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run());
  make(store.staging_folder(run) + "/rank-0000.db", FileKind::kStaging, kStagedRows);
  {
    StagingWriter writer(staging_options(store.staging_folder(run)));
    writer.on_rank_start(rank_start(0));
    writer.on_phase({0, 1, 2, 3, 4, 5, 6, 7, 8, 36});
    writer.on_run_end({5, "finished", ""});
    EXPECT_EQ(writer.error(), "");
  }
  store.end_run(run, "finished", 0, "", {});
  EXPECT_EQ(Reader(record()).phases(run).size(), 1U);
  EXPECT_EQ(Reader(record()).metrics(run).size(), 2U);
}

}  // namespace
}  // namespace samerun::recorder
