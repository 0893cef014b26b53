// What the launcher puts in the record, and the commands that read it.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "harness.h"
#include "paths.h"
#include "samerun/recorder/reader.h"

namespace samerun::launch_test {
namespace {

recorder::RunRow only_run(const Bench& bench) {
  const std::vector<recorder::RunRow> runs = recorder::Reader(bench.record()).runs();
  EXPECT_EQ(runs.size(), 1u);
  return runs.at(0);
}

TEST(RecordTest, AFinishedRunIsRecordedWithItsExits) {
  Bench bench;
  const Ended ended = bench.run({"launch", "-n", "2", "--", kStubPath, "hello", "env=SAMERUN_RUN_ID", "bye"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), (Words{"[0] SAMERUN_RUN_ID=1", "[1] SAMERUN_RUN_ID=1"}));
  const recorder::RunRow run = only_run(bench);
  EXPECT_EQ(run.status, "finished");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.world_size, 2);
  EXPECT_EQ(run.argv, (Words{kStubPath, "hello", "env=SAMERUN_RUN_ID", "bye"}));
  EXPECT_EQ(std::filesystem::canonical(run.cwd), std::filesystem::canonical(bench.folder()));
  const std::vector<recorder::RankExitRow> exits = recorder::Reader(bench.record()).exits(run.id);
  ASSERT_EQ(exits.size(), 2u);
  for (const recorder::RankExitRow& exit : exits) EXPECT_EQ(exit.exit_code, 0);
}

TEST(RecordTest, RanksAreGivenAStagingFolderThatIsGoneAfterwards) {
  Bench bench;
  const Ended ended = bench.run({"launch", "--", kStubPath, "hello", "env=SAMERUN_STAGING", "bye"});
  const std::string line = sorted_lines(ended.out).at(0);
  const std::string staging = line.substr(line.find('=') + 1);
  EXPECT_TRUE(std::filesystem::path(staging).is_absolute()) << staging;
  EXPECT_FALSE(std::filesystem::exists(staging));
}

TEST(RecordTest, AFailureIsRecordedWithTheRankThatFailedFirst) {
  Bench bench;
  EXPECT_EQ(bench.run({"launch", "-n", "2", "--", kStubPath, "hello", "1:err=reason", "1:exit=9", "wait"}).code, 3);
  const recorder::RunRow run = only_run(bench);
  EXPECT_EQ(run.status, "failed");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_NE(run.message.find("rank 1"), std::string::npos) << run.message;
  const std::vector<recorder::RankExitRow> exits = recorder::Reader(bench.record()).exits(run.id);
  ASSERT_EQ(exits.size(), 2u);
  EXPECT_EQ(exits[0].signal, SIGTERM);
  EXPECT_FALSE(exits[0].first_failure);
  EXPECT_EQ(exits[1].exit_code, 9);
  EXPECT_TRUE(exits[1].first_failure);
  EXPECT_EQ(exits[1].stderr_tail, "reason");
}

TEST(RecordTest, ASignalIsRecorded) {
  Bench bench;
  bench.start({"launch", "--", kStubPath, "hello", "mark=up", "wait"});
  bench.await_mark("up.0");
  ::kill(bench.pid(), SIGTERM);
  bench.finish();
  const recorder::RunRow run = only_run(bench);
  EXPECT_EQ(run.status, "failed");
  EXPECT_EQ(run.message, "stopped by SIGTERM");
}

TEST(RecordTest, ARunWhoseLauncherWasKilledIsLost) {
  Bench bench;
  bench.start({"launch", "--", kStubPath, "hello", "mark=up", "wait"});
  bench.await_mark("up.0");
  ::kill(bench.pid(), SIGKILL);
  bench.finish();
  const Ended listed = bench.run({"runs"});
  EXPECT_EQ(listed.code, 0) << listed.err;
  EXPECT_NE(listed.out.find("lost"), std::string::npos) << listed.out;
}

TEST(RecordTest, RunsAndShowPrintTextAndJson) {
  Bench bench;
  bench.run({"launch", "-n", "2", "--", kStubPath, "hello", "1:die=11", "wait"});
  const Ended runs = bench.run({"runs"});
  EXPECT_NE(runs.out.find("rank_stub hello"), std::string::npos) << runs.out;
  const Ended show = bench.run({"show", "1"});
  EXPECT_EQ(show.code, 0) << show.err;
  EXPECT_NE(show.out.find("killed by SIGSEGV, failed first"), std::string::npos) << show.out;
  EXPECT_FALSE(has_control_characters(runs.out + show.out));
  const Ended json = bench.run({"show", "1", "--json"});
  EXPECT_EQ(json.out.front(), '{');
  EXPECT_NE(json.out.find("\"status\": \"failed\""), std::string::npos) << json.out;
  EXPECT_NE(bench.run({"runs", "--json"}).out.find("\"world_size\": 2"), std::string::npos);
}

TEST(RecordTest, TheRecordMayLieElsewhere) {
  Bench bench;
  EXPECT_EQ(bench.run({"launch", "--record-dir", "a/b", "--", kStubPath, "hello", "bye"}).code, 0);
  EXPECT_EQ(bench.run({"runs", "--record_dir=a/b"}).code, 0);
  EXPECT_EQ(bench.run({"runs", "--record-dir", "a/b/samerun.db"}).code, 0);
  bench.env["SAMERUN_DIR"] = bench.file("a/b");
  EXPECT_NE(bench.run({"show", "1"}).out.find("finished"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(bench.record()));
}

TEST(RecordTest, NoRecordMakesNoFile) {
  Bench bench;
  bench.launch(1, {"hello", "bye"});
  bench.env["SAMERUN_RECORD"] = "off";
  bench.run({"launch", "--", kStubPath, "hello", "bye"});
  EXPECT_FALSE(std::filesystem::exists(bench.record()));
}

TEST(RecordTest, EnvPrintsFactsOfTheMachine) {
  Bench bench;
  const Ended text = bench.run({"env"});
  EXPECT_EQ(text.code, 0);
  EXPECT_NE(text.out.find("- samerun: 0.1.0\n"), std::string::npos);
  EXPECT_NE(text.out.find("- cpu.model: "), std::string::npos);
  EXPECT_EQ(bench.run({"env", "--json"}).out.front(), '{');
}

}  // namespace
}  // namespace samerun::launch_test
