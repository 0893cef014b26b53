#include <atomic>
#include <fstream>
#include <future>
#include <iterator>
#include <stdexcept>

#include "child_process.h"
#include "record_fixture.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/attach.h"
#include "sqlite.h"

namespace samerun::recorder {
namespace {

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class StagingTest : public RecordFixture {
 protected:
  void SetUp() override {
    RecordFixture::SetUp();
    store_ = std::make_unique<Store>(record());
    run_ = store_->begin_run(new_run());
    staging_ = store_->staging_folder(run_);
  }
  void TearDown() override {
    store_.reset();
    RecordFixture::TearDown();
  }
  bool has_event(const std::string& kind) {
    for (const EventRow& row : Reader(record()).events(run_)) {
      if (row.event.kind == kind) return true;
    }
    return false;
  }
  void end() { store_->end_run(run_, "finished", 0, "", {}); }
  bool complete() { return Reader(record()).run(run_)->complete; }

  std::unique_ptr<Store> store_;
  std::int64_t run_ = 0;
  std::string staging_;
};

TEST_F(StagingTest, AFullQueueCountsWhatItDropsAndTheRunIsIncomplete) {
  std::promise<void> disk_is_back;
  const auto gate = disk_is_back.get_future().share();
  StagingOptions options = staging_options(staging_);
  options.queue.rows = 10;
  options.queue.batch_rows = 1;
  options.queue.patience = std::chrono::milliseconds(1);
  options.before_commit = [gate] { gate.wait(); };
  {
    StagingWriter writer(options);
    writer.on_rank_start(rank_start(0));
    for (int step = 0; step < 100; ++step) writer.on_step(step_number(step));
    EXPECT_GT(writer.dropped(), 0);
    disk_is_back.set_value();
    writer.on_run_end({100, "finished", ""});
    const std::int64_t dropped = writer.dropped();
    end();
    EXPECT_EQ(Reader(record()).dropped_rows(run_), dropped);
    EXPECT_EQ(static_cast<std::int64_t>(Reader(record()).steps(run_).size()), 100 - dropped);
  }
  EXPECT_EQ(Reader(record()).ranks(run_).at(0).status, "finished");
  EXPECT_FALSE(complete());
}

TEST_F(StagingTest, AQueueIsBoundedByBytesToo) {
  std::promise<void> disk_is_back;
  const auto gate = disk_is_back.get_future().share();
  StagingOptions options = staging_options(staging_);
  options.queue.bytes = 64 * 1024;
  options.queue.patience = std::chrono::milliseconds(1);
  options.before_commit = [gate] { gate.wait(); };
  StagingWriter writer(options);
  writer.on_rank_start(rank_start(0));
  for (int step = 0; step < 1'000; ++step) writer.on_tensor(tensor_trace(step, "weight", 256));
  EXPECT_GT(writer.dropped(), 0);
  disk_is_back.set_value();
}

TEST_F(StagingTest, RowsAreTakenAgainOnceThereIsRoom) {
  std::promise<void> disk_is_back;
  const auto gate = disk_is_back.get_future().share();
  StagingOptions options = staging_options(staging_);
  options.queue.rows = 10;
  options.queue.batch_rows = 1;
  options.queue.patience = std::chrono::milliseconds(1);
  options.before_commit = [gate] { gate.wait(); };
  StagingWriter writer(options);
  writer.on_rank_start(rank_start(0));
  for (int step = 0; step < 100; ++step) writer.on_step(step_number(step));
  disk_is_back.set_value();
  std::int64_t step = 1'000;
  ASSERT_TRUE(eventually([&] {
    const std::int64_t before = writer.dropped();
    writer.on_step(step_number(step++));
    return writer.dropped() == before;
  }));
  writer.on_run_end({0, "finished", ""});
  end();
  EXPECT_EQ(Reader(record()).steps(run_).back().step.step, step - 1);
}

TEST_F(StagingTest, AFailedWriteStopsTheRecordingNotTheTraining) {
  std::atomic<int> commits = 0;
  StagingOptions options = staging_options(staging_);
  options.before_commit = [&] {
    if (++commits > 1) throw std::runtime_error("no such luck");
  };
  testing::internal::CaptureStderr();
  {
    StagingWriter writer(options);
    writer.on_rank_start(rank_start(0));
    ASSERT_TRUE(eventually([&] { return commits == 1; }));
    writer.on_step(step_number(0));
    ASSERT_TRUE(eventually([&] { return !writer.error().empty(); }));
    for (int step = 1; step < 5; ++step) writer.on_step(step_number(step));
    writer.on_run_end({5, "finished", ""});
  }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("no such luck"), std::string::npos) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << "one line: " << said;
  end();
  EXPECT_TRUE(has_event("record-stopped"));
  EXPECT_EQ(Reader(record()).dropped_rows(run_), 5);
  EXPECT_FALSE(complete());
}

TEST_F(StagingTest, ARealFullDiskIsSurvivedAndSaid) {
  setenv(env::kStaging, staging_.c_str(), 1);
  ChildProcess child({RECORDER_HELPER, "starve", "yes"}, folder_ + "/stderr");
  unsetenv(env::kStaging);
  EXPECT_EQ(child.line(), "trained on");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_NE(text_of(folder_ + "/stderr").find("training goes on"), std::string::npos);
  end();
  EXPECT_TRUE(has_event("record-stopped"));
  EXPECT_GT(Reader(record()).dropped_rows(run_), 0);
  EXPECT_FALSE(complete());
}

TEST_F(StagingTest, WithoutRoomForLastWordsTheRankIsNotMarkedAsEnded) {
  setenv(env::kStaging, staging_.c_str(), 1);
  ChildProcess child({RECORDER_HELPER, "starve", "no"});
  unsetenv(env::kStaging);
  EXPECT_EQ(child.line(), "trained on");
  EXPECT_EQ(child.wait(), 0);
  end();
  for (const RankRow& row : Reader(record()).ranks(run_)) EXPECT_EQ(row.status, "lost");
  EXPECT_FALSE(complete());
}

TEST_F(StagingTest, EventsBeforeTheRankIsKnownAreKept) {
  StagingOptions options = staging_options(staging_);
  options.rank.reset();
  {
    StagingWriter writer(options);
    writer.on_setting({"seed", "7", "argument"});
    writer.on_rank_start(rank_start(3, 4));
    writer.on_run_end({0, "finished", ""});
  }
  end();
  EXPECT_EQ(Reader(record()).settings(run_).at(0).rank, 3);
  EXPECT_FALSE(complete()) << "three ranks of four are missing";
}

TEST_F(StagingTest, EventsOfARankThatNeverStartsAreKept) {
  {
    StagingOptions options = staging_options(staging_);
    options.rank.reset();
    StagingWriter writer(options);
    writer.on_event({"error", "config", "wrong flag", -1});
  }
  end();
  EXPECT_TRUE(has_event("config"));
}

TEST_F(StagingTest, ASecondWriterOfAFileContinuesIt) {
  for (const char* name : {"weight", "bias"}) {
    StagingWriter writer(staging_options(staging_));
    writer.on_rank_start(rank_start(0));
    writer.on_tensor(tensor_trace(0, name));
    writer.on_tensor(tensor_trace(1, "weight"));
    writer.on_run_end({1, "finished", ""});
  }
  end();
  std::vector<std::string> names;
  Reader(record()).tensors(run_, stage::kRaw, [&](const TensorRow& row) { names.push_back(row.trace.name); });
  EXPECT_EQ(names, (std::vector<std::string>{"bias", "weight", "weight", "weight"}));
}

TEST_F(StagingTest, ADamagedStagingFileGivesWhatCanBeReadAndIsKept) {
  for (int rank : {0, 1}) {
    StagingWriter writer(staging_options(staging_, rank));
    writer.on_rank_start(rank_start(rank, 2));
    for (int step = 0; step < 2'000; ++step) writer.on_tensor(tensor_trace(step, "weight", 64));
    writer.on_run_end({0, "finished", ""});
  }
  const std::string damaged = staging_ + "/rank-0001.db";
  std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(damaged) / 2));
  file << std::string(64 * 1024, 'x');
  file.close();
  end();
  std::map<int, int> rows;
  Reader(record()).tensors(run_, stage::kRaw, [&](const TensorRow& row) { ++rows[row.rank]; });
  EXPECT_EQ(rows[0], 2'000);
  EXPECT_GT(rows[1], 0);
  EXPECT_LT(rows[1], 2'000);
  EXPECT_TRUE(has_event("staging-damaged"));
  EXPECT_FALSE(complete());
  EXPECT_TRUE(std::filesystem::exists(damaged));
}

TEST_F(StagingTest, NoiseAndAnEmptyFileAmongTheStagingFilesDoNoHarm) {
  std::ofstream(staging_ + "/rank-0007.db") << std::string(5'000, 'x');
  std::ofstream(staging_ + "/rank-0008.db").flush();
  StagingWriter(staging_options(staging_)).on_step(step_number(0));
  end();
  EXPECT_EQ(Reader(record()).steps(run_).size(), 1U);
  EXPECT_TRUE(has_event("staging-damaged"));
  EXPECT_TRUE(has_event("staging-empty"));
}

TEST_F(StagingTest, AnObserverThatWasDetachedMakesTheRunIncomplete) {
  {
    StagingWriter writer(staging_options(staging_));
    writer.on_rank_start(rank_start(0));
    writer.on_event({"error", "observer-detached", "profiler: out of memory", 4});
    writer.on_run_end({5, "finished", ""});
  }
  end();
  EXPECT_FALSE(complete());
}

TEST_F(StagingTest, ARankThatFailedIsTold) {
  StagingWriter(staging_options(staging_)).on_rank_start(rank_start(0));
  store_->end_run(run_, "failed", 1, "rank 0 was killed", {{0, std::nullopt, 9, "", true}});
  const Reader reader(record());
  EXPECT_EQ(reader.ranks(run_).at(0).status, "failed");
  EXPECT_EQ(reader.exits(run_).at(0).signal, 9);
  EXPECT_TRUE(reader.exits(run_).at(0).first_failure);
  EXPECT_EQ(reader.run(run_)->message, "rank 0 was killed");
}

TEST(AttachTest, IsNothingWithoutAStagingFolder) {
  unsetenv(env::kStaging);
  EXPECT_EQ(attach_from_env(), nullptr);
}

TEST(AttachTest, NamesTheFolderThatCannotBeWritten) {
  setenv(env::kStaging, "/dev/null/nowhere", 1);
  try {
    attach_from_env();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kStorage);
    EXPECT_NE(std::string(error.what()).find("/dev/null/nowhere"), std::string::npos) << error.what();
  }
  unsetenv(env::kStaging);
}

}  // namespace
}  // namespace samerun::recorder
