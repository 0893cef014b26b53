#include <gtest/gtest.h>

#include "harness.h"
#include "paths.h"

namespace samerun::launch_test {
namespace {

TEST(LaunchTest, RanksThatSayHelloAndByeEndWithCodeZero) {
  Bench bench;
  const Ended ended = bench.launch(2, {"hello", "out=x", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), (Words{"[0] x", "[1] x"}));
}

TEST(LaunchTest, StreamsStayApartAndEachLineHasItsRank) {
  Bench bench;
  const Ended ended = bench.launch(2, {"hello", "out=a", "out=b", "err=c", "bye"});
  EXPECT_EQ(sorted_lines(ended.out), (Words{"[0] a", "[0] b", "[1] a", "[1] b"}));
  EXPECT_NE(ended.err.find("[0] c\n"), std::string::npos);
  EXPECT_NE(ended.err.find("[1] c\n"), std::string::npos);
  EXPECT_FALSE(has_control_characters(ended.out + ended.err));
}

TEST(LaunchTest, ALoneRankHasNoPrefixUnlessAsked) {
  Bench bench;
  EXPECT_EQ(bench.launch(1, {"hello", "out=a", "part=b", "bye"}).out, "a\nb");
  const Ended prefixed = bench.run({"launch", "--no-record", "--prefix", "--", kStubPath, "hello", "out=a", "bye"});
  EXPECT_EQ(prefixed.out, "[0] a\n");
}

TEST(LaunchTest, ALastLineWithoutNewlineIsNotLost) {
  Bench bench;
  EXPECT_EQ(sorted_lines(bench.launch(2, {"hello", "part=end", "bye"}).out), (Words{"[0] end", "[1] end"}));
}

TEST(LaunchTest, AVeryLongLineStaysWhole) {
  Bench bench;
  const Ended ended = bench.launch(2, {"hello", "long=3000000", "bye"});
  const Words lines = sorted_lines(ended.out);
  ASSERT_EQ(lines.size(), 2u);
  for (const std::string& line : lines) EXPECT_EQ(line.size(), 3000000u + 4);
}

TEST(LaunchTest, TheRendezvousSocketListensAtThePortThatAllRanksAreTold) {
  Bench bench;
  const Ended ended = bench.launch(2, {"hello", "0:serve", "1:call=greeting", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), (Words{"[0] heard greeting", "[0] port equal"}));
}

TEST(LaunchTest, OnlyRankZeroInheritsTheSocketAndNoOtherDescriptorLeaks) {
  Bench bench;
  const Ended ended = bench.launch(2, {"hello", "descriptors", "bye"});
  // The control pipe; rank 0 has the socket besides.
  EXPECT_EQ(sorted_lines(ended.out), (Words{"[0] descriptors 2", "[1] descriptors 1"}));
}

TEST(LaunchTest, RanksAreToldTheirPlaceAndTheirThreads) {
  Bench bench;
  const Ended ended = bench.run({"launch",
                                 "-n2",
                                 "--threads=3",
                                 "--timeout",
                                 "7",
                                 "--seed",
                                 "11",
                                 "--no-record",
                                 "--",
                                 kStubPath,
                                 "hello",
                                 "1:env=SAMERUN_RANK",
                                 "1:env=SAMERUN_WORLD_SIZE",
                                 "1:env=SAMERUN_LOCAL_RANK",
                                 "1:env=SAMERUN_THREADS",
                                 "1:env=OMP_NUM_THREADS",
                                 "1:env=MKL_NUM_THREADS",
                                 "1:env=SAMERUN_TIMEOUT_S",
                                 "1:env=SAMERUN_SEED",
                                 "bye"});
  EXPECT_EQ(
      ended.out,
      "[1] SAMERUN_RANK=1\n[1] SAMERUN_WORLD_SIZE=2\n[1] SAMERUN_LOCAL_RANK=1\n[1] SAMERUN_THREADS=3\n[1] OMP_NUM_THREADS=3\n[1] MKL_NUM_THREADS=3\n"
      "[1] SAMERUN_TIMEOUT_S=7\n[1] SAMERUN_SEED=11\n");
}

TEST(LaunchTest, AFlagBeatsTheEnvironmentAndBothAreNamed) {
  Bench bench;
  bench.env["SAMERUN_THREADS"] = "5";
  bench.env["SAMERUN_SEED"] = "3";
  const Ended ended = bench.run({"launch", "--seed", "4", "--no-record", "--", kStubPath, "hello", "env=SAMERUN_THREADS", "env=SAMERUN_SEED", "bye"});
  EXPECT_EQ(ended.out, "SAMERUN_THREADS=5\nSAMERUN_SEED=4\n");
  EXPECT_NE(ended.err.find("threads 5 (environment)"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("seed 4 (argument)"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("ranks 1 (default)"), std::string::npos) << ended.err;
}

TEST(LaunchTest, WhatAnotherLauncherLeftInTheEnvironmentDoesNotReachTheRanks) {
  Bench bench;
  for (const char* name : {"SAMERUN_STORE_FD", "SAMERUN_RUN_ID", "SAMERUN_STAGING"}) bench.env[name] = "77";
  const Ended ended = bench.launch(2, {"hello", "1:env=SAMERUN_STORE_FD", "1:env=SAMERUN_RUN_ID", "1:env=SAMERUN_STAGING", "bye"});
  EXPECT_EQ(ended.out, "[1] SAMERUN_STORE_FD=\n[1] SAMERUN_RUN_ID=\n[1] SAMERUN_STAGING=\n");
}

TEST(LaunchTest, MoreRanksThanCoresRunWithAWarning) {
  Bench bench;
  const Ended ended = bench.launch(70, {"hello", "69:env=SAMERUN_THREADS", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  if (ended.err.find("warning: 70 ranks share") != std::string::npos) {
    EXPECT_EQ(ended.out, "[69] SAMERUN_THREADS=1\n");
  } else {
    EXPECT_NE(ended.out, "");  // A machine with 70 cores.
  }
}

TEST(LaunchTest, QuietSaysNothingWhenAllIsWell) {
  Bench bench;
  const Ended ended = bench.run({"launch", "-q", "-n", "70", "--no-record", "--", kStubPath, "hello", "bye"});
  EXPECT_EQ(ended.err, "");
}

TEST(LaunchTest, AScriptThatExecutesALinkedProgramWorks) {
  Bench bench;
  bench.write("train.sh", std::string("#!/bin/sh\nexec ") + kStubPath + " hello out=ok bye\n", true);
  const Ended ended = bench.run({"launch", "-n", "2", "--no-record", "./train.sh"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), (Words{"[0] ok", "[1] ok"}));
}

TEST(LaunchTest, TheProgramsOwnFlagsAreLeftAlone) {
  Bench bench;
  bench.write("show.sh", std::string("#!/bin/sh\necho \"$@\"\nexec ") + kStubPath + " hello bye\n", true);
  EXPECT_EQ(bench.run({"launch", "--no_record", "./show.sh", "--some_flag", "-n", "9", "--", "x"}).out, "--some_flag -n 9 -- x\n");
}

TEST(LaunchTest, AnEndWithoutByeIsRemarkedOn) {
  Bench bench;
  const Ended ended = bench.launch(1, {"hello", "exit=0"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_NE(ended.err.find("warning: rank 0 ended with code 0"), std::string::npos) << ended.err;
}

}  // namespace
}  // namespace samerun::launch_test
