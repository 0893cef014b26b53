#include <fstream>

#include "child_process.h"
#include "fold.h"
#include "record_fixture.h"
#include "samerun/core/launch_contract.h"
#include "sqlite.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

class CrashTest : public RecordFixture {
 protected:
  std::int64_t staged_rows(const std::string& staging, const std::string& table) {
    if (!fs::exists(staging + "/rank-0000.db")) return 0;
    Database database(staging + "/rank-0000.db", Database::Mode::kReadOnly);
    return database.integer("SELECT count(*) FROM " + table);
  }
  bool committed(const std::string& staging, int steps) {
    return eventually([&] { return staged_rows(staging, "tensor") == steps; });
  }
  std::string staging(std::int64_t run) const { return record() + "/staging-run-" + std::to_string(run); }
  void change_record(const std::string& sql) { Database(record() + "/samerun.db", Database::Mode::kReadWrite).execute(sql); }

  std::size_t tensor_rows(std::int64_t run) {
    std::size_t rows = 0;
    Reader(record()).tensors(run, stage::kRaw, [&](const TensorRow&) { ++rows; });
    return rows;
  }
};

TEST_F(CrashTest, RowsCommittedBeforeAKillAreFoldedAndTheRunIsLost) {
  ChildProcess child({RECORDER_HELPER, "launch", record(), "300"});
  const std::int64_t run = std::stoll(child.line());
  ASSERT_TRUE(committed(staging(run), 300));
  EXPECT_EQ(Reader(record()).run(run)->status, "running");
  child.kill();
  EXPECT_EQ(Reader(record()).run(run)->status, "lost") << "a reader must not wait for a sweep to say so";

  Store store(record());
  EXPECT_EQ(store.sweep(), std::vector<std::int64_t>{run});
  EXPECT_TRUE(store.sweep().empty());
  const Reader reader(record());
  EXPECT_EQ(reader.steps(run).size(), 300U);
  EXPECT_EQ(tensor_rows(run), 300U);
  EXPECT_EQ(reader.run(run)->status, "lost");
  EXPECT_FALSE(reader.run(run)->complete);
  EXPECT_EQ(reader.ranks(run).at(0).status, "lost");
  EXPECT_FALSE(fs::exists(staging(run)));
}

TEST_F(CrashTest, TheNextRunSweepsByItself) {
  ChildProcess child({RECORDER_HELPER, "launch", record(), "10"});
  const std::int64_t run = std::stoll(child.line());
  ASSERT_TRUE(committed(staging(run), 10));
  child.kill();
  Store store(record());
  EXPECT_GT(store.begin_run(new_run()), run);
  EXPECT_EQ(Reader(record()).steps(run).size(), 10U);
}

TEST_F(CrashTest, SweepKeepsTheStagingFolderOfARankThatStillLives) {
  ChildProcess launcher({RECORDER_HELPER, "launcher", record()});
  const std::int64_t run = std::stoll(launcher.line());
  setenv(env::kStaging, launcher.line().c_str(), 1);
  setenv(env::kRunId, std::to_string(run).c_str(), 1);
  ChildProcess rank({RECORDER_HELPER, "rank", "20"});
  unsetenv(env::kStaging);
  unsetenv(env::kRunId);
  ASSERT_EQ(rank.line(), "written");
  ASSERT_TRUE(committed(staging(run), 20));
  launcher.kill();

  Store store(record());
  EXPECT_EQ(store.sweep(), std::vector<std::int64_t>{run});
  EXPECT_TRUE(fs::exists(staging(run) + "/rank-0000.db"));
  EXPECT_EQ(Reader(record()).steps(run).size(), 20U);
  rank.kill();
  EXPECT_TRUE(store.sweep().empty()) << "it is lost already";
  EXPECT_FALSE(fs::exists(staging(run)));
  EXPECT_EQ(Reader(record()).steps(run).size(), 20U);
}

TEST_F(CrashTest, RowsThatWereFlushedAreOnTheDiskWhenTheRankKillsItself) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run());
  setenv(env::kStaging, store.staging_folder(run).c_str(), 1);
  ChildProcess rank({RECORDER_HELPER, "flush", "20"});
  unsetenv(env::kStaging);
  EXPECT_EQ(rank.wait(), -SIGKILL);
  store.fold(run);
  EXPECT_EQ(Reader(record()).steps(run).size(), 20U);
}

TEST_F(CrashTest, FoldingTwiceAddsNothing) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run());
  StagingWriter writer(staging_options(store.staging_folder(run)));
  writer.on_rank_start(rank_start(0));
  for (int step = 0; step < 10; ++step) writer.on_tensor(tensor_trace(step, "weight"));
  ASSERT_TRUE(committed(staging(run), 10));
  EXPECT_EQ(store.fold(run), 12) << "the rank's row, a name and ten tensors";
  EXPECT_EQ(store.fold(run), 0);
  writer.on_tensor(tensor_trace(10, "weight"));
  ASSERT_TRUE(committed(staging(run), 11));
  EXPECT_EQ(store.fold(run), 1);
  EXPECT_EQ(tensor_rows(run), 11U);
}

class InterruptedFoldTest : public CrashTest, public testing::WithParamInterface<const char*> {};

TEST_P(InterruptedFoldTest, LosesAndDoublesNothing) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run());
  {
    StagingWriter writer(staging_options(store.staging_folder(run)));
    writer.on_rank_start(rank_start(0));
    for (int step = 0; step < 200; ++step) {
      writer.on_step(step_number(step));
      writer.on_metric({step, 0, "loss", 1.0, "logged"});
      writer.on_tensor(tensor_trace(step, "weight"));
    }
    writer.on_run_end({200, "finished", ""});
  }
  ChildProcess fold({RECORDER_HELPER, "fold", record(), std::to_string(run), staging(run), GetParam()});
  EXPECT_EQ(fold.wait(), -SIGKILL);
  store.end_run(run, "finished", 0, "", {});
  const Reader reader(record());
  EXPECT_EQ(reader.steps(run).size(), 200U);
  EXPECT_EQ(reader.metrics(run).size(), 200U);
  EXPECT_EQ(tensor_rows(run), 200U);
  EXPECT_TRUE(reader.run(run)->complete);
}

INSTANTIATE_TEST_SUITE_P(Points, InterruptedFoldTest, testing::Values("row", "commit", "after"),
                         [](const auto& param) { return std::string(param.param); });

TEST_F(CrashTest, TwoProcessesRecordIntoOneFileAtOnce) {
  ChildProcess first({RECORDER_HELPER, "runs", record(), "5"});
  ChildProcess second({RECORDER_HELPER, "runs", record(), "5"});
  EXPECT_EQ(first.wait(), 0) << first.line();
  EXPECT_EQ(second.wait(), 0) << second.line();
  const Reader reader(record());
  const auto runs = reader.runs();
  EXPECT_EQ(runs.size(), 10U);
  for (const RunRow& run : runs) {
    EXPECT_EQ(run.status, "finished");
    EXPECT_TRUE(run.complete) << run.id;
    EXPECT_EQ(reader.steps(run.id).size(), 50U);
    EXPECT_EQ(tensor_rows(run.id), 50U);
  }
  EXPECT_FALSE(fs::exists(record() + "/samerun.db-wal")) << "a record at rest is one file";
  for (const auto& entry : fs::directory_iterator(record())) EXPECT_FALSE(entry.is_directory()) << entry.path();
}

TEST_F(CrashTest, APidUsedAgainByAnotherProcessIsNoLauncher) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run());
  EXPECT_TRUE(store.sweep().empty()) << "this process is alive";
  change_record("UPDATE run SET pid_start = pid_start - 1");
  EXPECT_EQ(store.sweep(), std::vector<std::int64_t>{run});
}

TEST_F(CrashTest, OnAnotherHostOnlyAnOldHeartbeatTells) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run());
  change_record("UPDATE run SET host = 'elsewhere', boot_id = 'another'");
  EXPECT_TRUE(store.sweep().empty());
  EXPECT_EQ(Reader(record()).run(run)->status, "starting");
  change_record("UPDATE run SET heartbeat_utc_ns = heartbeat_utc_ns - 61000000000");
  EXPECT_EQ(store.sweep(), std::vector<std::int64_t>{run});
}

}  // namespace
}  // namespace samerun::recorder
