// Where checkpoints go, what is said of them after a failure, and `samerun resume`. The stub's checkpoints are folders with a
// manifest and nothing else.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "harness.h"
#include "paths.h"
#include "samerun/recorder/reader.h"

namespace samerun::launch_test {
namespace {

Words launch(const Words& flags, const Words& stub_words) {
  Words words{"launch"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--", kStubPath});
  words.insert(words.end(), stub_words.begin(), stub_words.end());
  return words;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

void expect_refused(const Ended& ended, const std::string& text) {
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
}

TEST(ResumeTest, ARecordedRunGetsAFolderForCheckpointsAndItsCommand) {
  Bench bench;
  const Ended ended = bench.run(launch({}, {"hello", "env=SAMERUN_CHECKPOINT_DIR", "env=SAMERUN_RESUME_COMMAND", "bye"}));
  EXPECT_TRUE(has_line(ended.out, "SAMERUN_CHECKPOINT_DIR=" + bench.record() + "/checkpoints/run-1")) << ended.out;
  EXPECT_TRUE(has_line(ended.out, "SAMERUN_RESUME_COMMAND=samerun resume 1")) << ended.out;
  const Ended elsewhere = bench.run(launch({"--record-dir", "other"}, {"hello", "env=SAMERUN_RESUME_COMMAND", "bye"}));
  EXPECT_TRUE(has_line(elsewhere.out, "SAMERUN_RESUME_COMMAND=samerun resume 1 --record-dir " + bench.file("other"))) << elsewhere.out;
}

TEST(ResumeTest, TheFolderOfTheUserWins) {
  Bench bench;
  const Ended flag = bench.run(launch({"--checkpoint-dir", "mine"}, {"hello", "env=SAMERUN_CHECKPOINT_DIR", "bye"}));
  EXPECT_TRUE(has_line(flag.out, "SAMERUN_CHECKPOINT_DIR=" + bench.file("mine"))) << flag.out;
  bench.env["SAMERUN_CHECKPOINT_DIR"] = "theirs";
  bench.env["SAMERUN_RESUME_COMMAND"] = "stale";
  const Ended variable = bench.run(launch({}, {"hello", "env=SAMERUN_CHECKPOINT_DIR", "env=SAMERUN_RESUME_COMMAND", "bye"}));
  EXPECT_TRUE(has_line(variable.out, "SAMERUN_CHECKPOINT_DIR=theirs")) << variable.out;
  EXPECT_TRUE(has_line(variable.out, "SAMERUN_RESUME_COMMAND=samerun resume 2")) << variable.out;
  const Ended unrecorded = bench.run(launch({"--no-record"}, {"hello", "env=SAMERUN_RESUME_COMMAND", "bye"}));
  EXPECT_TRUE(has_line(unrecorded.out, "SAMERUN_RESUME_COMMAND=")) << unrecorded.out;
}

TEST(ResumeTest, RunsOfAPairMakeNoCheckpoints) {
  Bench bench;
  bench.env["SAMERUN_CHECKPOINT_DIR"] = "theirs";
  bench.env["SAMERUN_RESUME_FROM"] = "/checkpoint";
  bench.run({"pair", "-n", "1", "--", kStubPath, "hello", "env=SAMERUN_CHECKPOINTS", "env=SAMERUN_CHECKPOINT_DIR", "env=SAMERUN_RESUME_FROM", "bye"});
  for (const recorder::RunRow& run : recorder::Reader(bench.record()).runs()) {
    const std::string log = read_file(bench.record() + "/logs/" + std::to_string(run.id) + ".log");
    EXPECT_TRUE(has_line(log, "[0] SAMERUN_CHECKPOINTS=off") && has_line(log, "[0] SAMERUN_CHECKPOINT_DIR=") &&
                has_line(log, "[0] SAMERUN_RESUME_FROM="))
        << run.role << log;
  }
}

TEST(ResumeTest, AFailureEndsWithHowToGoOn) {
  Bench bench;
  const Ended failed = bench.run(launch(
      {"-n", "2"}, {"hello", "checkpoint=3", "checkpoint=12", "1:await=.samerun/checkpoints/run-1/step-12/manifest.json", "1:exit=9", "wait"}));
  EXPECT_EQ(failed.code, 3);
  EXPECT_TRUE(failed.err.ends_with("\nto go on from step 12: samerun resume 1\n")) << failed.err;
  const Ended without = bench.run(launch({}, {"hello", "exit=9"}));
  EXPECT_EQ(without.err.find("to go on"), std::string::npos) << without.err;
}

TEST(ResumeTest, ARunThatIsToldToStopSaysHowToGoOn) {
  Bench bench;
  bench.start(launch({}, {"hello", "checkpoint=4", "mark=ready", "wait"}));
  bench.await_mark("ready.0");
  ::kill(bench.pid(), SIGTERM);
  const Ended ended = bench.finish();
  EXPECT_EQ(ended.code, 128 + SIGTERM);
  EXPECT_TRUE(ended.err.ends_with("\nto go on from step 4: samerun resume 1\n")) << ended.err;
}

TEST(ResumeTest, ResumeStartsTheSameCommandFromTheNewestCheckpoint) {
  Bench bench;
  bench.run(launch({"-n", "2", "--threads", "1"},
                   {"hello", "env=SAMERUN_RESUME_FROM", "env=SAMERUN_CHECKPOINT_DIR", "checkpoint=3", "checkpoint=7", "0:exit=9", "wait"}));
  const Ended resumed = bench.run({"resume", "1"});
  const std::string folder = bench.record() + "/checkpoints/run-1";
  EXPECT_EQ(resumed.code, 3) << resumed.err;  // As the stub is told.
  EXPECT_TRUE(has_line(resumed.out, "[0] SAMERUN_RESUME_FROM=" + folder + "/step-7")) << resumed.out;
  EXPECT_TRUE(has_line(resumed.out, "[0] SAMERUN_CHECKPOINT_DIR=" + folder)) << resumed.out;
  EXPECT_NE(resumed.err.find("run 2 goes on from step 7, " + folder + "/step-7"), std::string::npos) << resumed.err;
  EXPECT_EQ(resumed.err.find("warning: the program"), std::string::npos) << resumed.err;
  EXPECT_TRUE(resumed.err.ends_with("\nto go on from step 7: samerun resume 2\n")) << resumed.err;
  const recorder::RunRow old = *recorder::Reader(bench.record()).run(1), row = *recorder::Reader(bench.record()).run(2);
  EXPECT_EQ(row.parent_id, 1);
  EXPECT_EQ(row.role, "run");
  EXPECT_EQ(row.world_size, 2);
  EXPECT_EQ(row.argv, old.argv);
  EXPECT_EQ(row.cwd, old.cwd);
}

TEST(ResumeTest, AChainOfRunsGoesOnFromWhatItsEarlierRunsLeft) {
  Bench bench;
  bench.run(launch({}, {"hello", "checkpoint=5", "exit=9"}));
  bench.run({"resume", "1"});
  bench.run({"resume", "2"});
  const Ended third = bench.run({"resume", "3"});
  EXPECT_NE(third.err.find("run 4 goes on from step 5"), std::string::npos) << third.err;
  EXPECT_EQ(recorder::Reader(bench.record()).run(4)->parent_id, 3);
}

TEST(ResumeTest, CheckpointsOfOtherRunsInTheSameFolderAreNotTaken) {
  Bench bench;
  bench.run(launch({"--checkpoint-dir", "shared"}, {"hello", "checkpoint=5", "exit=9"}));
  bench.run(launch({"--checkpoint-dir", "shared"}, {"hello", "checkpoint=9", "exit=9"}));
  // The stub records no settings: where the first run's checkpoints are has to be said.
  const Ended first = bench.run({"resume", "1", "--checkpoint", "shared/step-5"});
  EXPECT_NE(first.err.find("goes on from step 5"), std::string::npos) << first.err;
  const Ended next = bench.run({"resume", "3"});
  expect_refused(next, "left no checkpoint");
}

TEST(ResumeTest, ResumeWorksFromAnotherFolder) {
  Bench bench;
  bench.run(launch({}, {"hello", "checkpoint=5", "exit=9"}));
  const std::string script = "mkdir -p deep && cd deep && exec " + std::string(kSamerunPath) + " resume 1 --record-dir ../.samerun";
  const Ended ended = bench.run({"launch", "--no-record", "--", "/bin/sh", "-c", script});
  EXPECT_NE(ended.err.find("run 2 goes on from step 5"), std::string::npos) << ended.err;
  EXPECT_EQ(recorder::Reader(bench.record()).run(2)->cwd, recorder::Reader(bench.record()).run(1)->cwd);
}

TEST(ResumeTest, ANamedCheckpointAndAnotherCommandAreTaken) {
  Bench bench;
  bench.run(launch({}, {"hello", "checkpoint=3", "checkpoint=7", "bye"}));
  expect_refused(bench.run({"resume", "1"}), "run 1 reached its end");
  const std::string folder = bench.record() + "/checkpoints/run-1/step-3";
  const Ended again = bench.run({"resume", "1", "--checkpoint", folder, "--", kStubPath, "hello", "env=SAMERUN_RESUME_FROM", "out=other", "bye"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(has_line(again.out, "SAMERUN_RESUME_FROM=" + folder) && has_line(again.out, "other")) << again.out;
}

TEST(ResumeTest, WhatCannotBeResumedIsRefusedWithItsReason) {
  Bench bench;
  EXPECT_EQ(bench.run({"resume", "1"}).code, 3);  // No record.
  bench.run(launch({}, {"hello", "exit=9"}));
  expect_refused(bench.run({"resume", "99"}), "no run 99; samerun runs lists them");
  expect_refused(bench.run({"resume", "1"}),
                 "run 1 left no checkpoint: looked for folders with a manifest.json in " + bench.record() + "/checkpoints/run-1");
  expect_refused(bench.run({"resume", "1", "--checkpoint", "nowhere"}), "nowhere is no checkpoint that was committed");
  std::filesystem::create_directory(bench.file("damaged"));
  bench.write("damaged/manifest.json", "{ half");
  const Ended damaged = bench.run({"resume", "1", "--checkpoint", "damaged"});
  EXPECT_EQ(damaged.code, 3);
  EXPECT_NE(damaged.err.find("is damaged"), std::string::npos) << damaged.err;
  // A pipe of this name kept resume waiting for a writer.
  std::filesystem::create_directory(bench.file("pipe"));
  ASSERT_EQ(::mkfifo(bench.file("pipe/manifest.json").c_str(), 0600), 0);
  expect_refused(bench.run({"resume", "1", "--checkpoint", "pipe"}), "pipe is no checkpoint that was committed");
  bench.run(launch({}, {"hello", "checkpoint=3", "out=x", "exit=9", "--api-token", "secret"}));
  expect_refused(bench.run({"resume", "2"}), "is not whole; give it: samerun resume 2 -- PROGRAM ARGS");
  bench.run({"pair", "-n", "1", "--", kStubPath, "hello", "bye"});
  expect_refused(bench.run({"resume", "3"}), "run 3 is the run candidate of a comparison");
  expect_refused(bench.run({"resume", "one"}), "RUN");
}

TEST(ResumeTest, ARunThatStillGoesOnIsNotResumed) {
  Bench bench;
  bench.start(launch({}, {"hello", "checkpoint=4", "mark=ready", "wait"}));
  const pid_t launcher = bench.pid();
  bench.await_mark("ready.0");
  Bench other;
  const Ended ended = other.run({"resume", "1", "--record-dir", bench.record()});
  expect_refused(ended, "run 1 is still running; stop it first");
  ::kill(launcher, SIGTERM);
  bench.finish();
}

TEST(ResumeTest, AProgramThatChangedAndAnotherEnvironmentAreSaid) {
  Bench bench;
  const std::string script = std::string("#!/bin/sh\nexec ") + kStubPath + " hello checkpoint=2 ";
  bench.write("train", script + "exit=9\n", true);
  bench.env["OMP_PROC_BIND"] = "true";
  bench.run({"launch", "--", "./train"});
  bench.write("train", script + "bye\n", true);
  bench.env["OMP_PROC_BIND"] = "false";
  const Ended ended = bench.run({"resume", "1"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.err.find("warning: the program's file is not the one of run 1 any more"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("OMP_PROC_BIND is \"false\", and was \"true\" in run 1"), std::string::npos) << ended.err;
}

TEST(ResumeTest, AFolderThatIsGoneIsSaid) {
  Bench bench;
  std::filesystem::create_directory(bench.file("work"));
  const std::string script =
      "cd work && exec " + std::string(kSamerunPath) + " launch --record-dir ../.samerun -- " + kStubPath + " hello checkpoint=2 exit=9";
  bench.run({"launch", "--no-record", "--", "/bin/sh", "-c", script});
  std::filesystem::remove_all(bench.file("work"));
  expect_refused(bench.run({"resume", "1"}), "cannot enter");
}

TEST(ResumeTest, AResumeCheckSaysWhatIsWrongWithItsPointsFirst) {
  Bench bench;
  for (const char* points : {"x", "3+", "0", "3,3", "2+0", "-1"}) {
    expect_refused(bench.run({"resume-check", "--points", points, "--", kStubPath, "hello", "bye"}), "--points");
  }
  EXPECT_FALSE(std::filesystem::exists(bench.record())) << "a record was made for nothing";
}

TEST(ResumeTest, AResumeCheckOfAProgramThatFailsOrMakesNoStepIsNoVerdict) {
  Bench bench;
  const Ended failed = bench.run({"resume-check", "--", kStubPath, "hello", "err=broken", "exit=5"});
  EXPECT_EQ(failed.code, 3);
  EXPECT_NE(failed.err.find("straight (run 1) failed"), std::string::npos) << failed.err;
  EXPECT_NE(failed.err.find("  | broken"), std::string::npos) << failed.err;
  expect_refused(bench.run({"resume-check", "--", kStubPath, "hello", "bye"}), "the program made 0 optimizer steps");
  expect_refused(bench.run({"resume-check", "--points", "1", "--", kStubPath, "hello", "bye"}), "--points has 1, and the program made 0");
  EXPECT_FALSE(std::filesystem::exists(bench.record() + "/checkpoints")) << "folders were left behind";
}

}  // namespace
}  // namespace samerun::launch_test
