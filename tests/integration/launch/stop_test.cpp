// Failures, signals, and what must not be left running.
#include <gtest/gtest.h>

#include <csignal>

#include "harness.h"
#include "paths.h"

namespace samerun::launch_test {
namespace {

TEST(StopTest, TheFirstFailureStopsAllAndIsNamedWithItsLastLines) {
  Bench bench;
  const Ended ended = bench.launch(3, {"hello", "mark=up", "1:await=up.0", "1:await=up.2", "1:lines=30", "1:exit=7", "wait"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(ended.err.find("rank 1 on "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("exited with code 7"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("  | line 30\n"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("  | line 11\n"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("  | line 10\n"), std::string::npos) << "more than 20 lines were kept";
  for (const char* name : {"up.0", "up.1", "up.2"}) EXPECT_FALSE(running(bench.await_mark(name))) << name;
}

TEST(StopTest, ASignalIsNamed) {
  Bench bench;
  const Ended ended = bench.launch(2, {"hello", "0:err=last words", "0:die=11", "wait"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(ended.err.find("was killed by SIGSEGV"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("  | last words\n"), std::string::npos) << ended.err;
}

TEST(StopTest, ARankThatIgnoresSigtermIsKilledWithItsChildren) {
  Bench bench;
  const Ended ended =
      bench.launch(2, {"hello", "0:deaf", "child=child", "mark=up", "1:await=up.0", "1:await=child.0", "1:await=child.1", "1:exit=1", "wait"});
  EXPECT_EQ(ended.code, 3);
  for (const char* name : {"up.0", "child.0", "child.1"}) EXPECT_TRUE(await_gone(bench.await_mark(name))) << name;
}

TEST(StopTest, ChildrenThatAFinishedRankLeftAreKilledAtTheEnd) {
  Bench bench;
  const Ended ended = bench.launch(1, {"hello", "child=child", "await=child.0", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_TRUE(await_gone(bench.await_mark("child.0")));
}

TEST(StopTest, NothingSurvivesALauncherThatIsKilled) {
  Bench bench;
  bench.start(bench.launch_words(2, {"hello", "deaf", "child=child", "mark=up", "wait"}));
  std::vector<pid_t> pids;
  for (const char* name : {"up.0", "up.1", "child.0", "child.1"}) pids.push_back(bench.await_mark(name));
  ::kill(bench.pid(), SIGKILL);
  EXPECT_EQ(bench.finish().signal, SIGKILL);
  for (const pid_t pid : pids) EXPECT_TRUE(await_gone(pid)) << pid;
}

class StopBySignal : public testing::TestWithParam<int> {};

TEST_P(StopBySignal, StopsTheRanksAndIsTheExitCode) {
  Bench bench;
  bench.start(bench.launch_words(2, {"hello", "mark=up", "wait"}));
  const pid_t first = bench.await_mark("up.0"), second = bench.await_mark("up.1");
  ::kill(bench.pid(), GetParam());
  const Ended ended = bench.finish();
  EXPECT_EQ(ended.code, 128 + GetParam());
  EXPECT_NE(ended.err.find("stopped by SIG"), std::string::npos) << ended.err;
  EXPECT_FALSE(running(first));
  EXPECT_FALSE(running(second));
}

INSTANTIATE_TEST_SUITE_P(Signals, StopBySignal, testing::Values(SIGTERM, SIGINT, SIGHUP));

TEST(StopTest, ASecondSignalKillsAtOnce) {
  Bench bench;
  bench.start(bench.launch_words(1, {"hello", "deaf", "mark=up", "wait"}));
  const pid_t rank = bench.await_mark("up.0");
  ::kill(bench.pid(), SIGTERM);
  bench.await_mark("heard.0");
  ::kill(bench.pid(), SIGINT);
  EXPECT_EQ(bench.finish().code, 128 + SIGTERM);
  EXPECT_FALSE(running(rank));
}

TEST(StopTest, AProgramThatMakesNoAcceleratorIsSaidToBeNotLinked) {
  Bench bench;
  const Ended fine = bench.launch(2, {"exit=0"});
  EXPECT_EQ(fine.code, 3);
  EXPECT_NE(fine.err.find("rank_stub is not linked with Samerun (no Accelerator was made)"), std::string::npos) << fine.err;
  const Ended failed = bench.launch(1, {"err=usage: ...", "exit=64"});
  EXPECT_EQ(failed.code, 3);
  EXPECT_NE(failed.err.find("exited with code 64; no Accelerator was made: rank_stub is not linked with Samerun"), std::string::npos) << failed.err;
  EXPECT_NE(failed.err.find("  | usage: ..."), std::string::npos) << failed.err;
}

TEST(StopTest, AReaderThatLeavesDoesNotStopTheRun) {
  Bench bench;
  bench.write("cut.sh",
              std::string("#!/bin/sh\n\"$SAMERUN\" launch -n 2 --no-record -- ") + kStubPath + " hello long=300000 long=300000 mark=up bye | true\n",
              true);
  bench.env["SAMERUN"] = kSamerunPath;
  const Ended ended = bench.run({"launch", "--no-record", "--", "./cut.sh"});
  EXPECT_EQ(ended.code, 3);  // The script itself makes no Accelerator.
  bench.await_mark("up.0");
  bench.await_mark("up.1");
}

}  // namespace
}  // namespace samerun::launch_test
