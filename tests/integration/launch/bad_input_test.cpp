// What a user may get wrong before anything runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "harness.h"
#include "paths.h"

namespace samerun::launch_test {
namespace {

void expect_usage(const Ended& ended, const std::string& text) {
  EXPECT_EQ(ended.code, 2) << ended.err;
  EXPECT_NE(ended.err.find(text), std::string::npos) << ended.err;
  EXPECT_EQ(ended.out, "");
  EXPECT_FALSE(has_control_characters(ended.err));
}

TEST(BadInputTest, AnUnknownFlagIsNamedWithTheNearestOne) {
  Bench bench;
  expect_usage(bench.run({"launch", "--nproc-per-nod", "2", "--", kStubPath}), "unknown flag --nproc-per-nod; did you mean --nproc-per-node?");
  expect_usage(bench.run({"launch", "--no_recrod", "--", kStubPath}), "unknown flag --no_recrod; did you mean --no-record?");
  expect_usage(bench.run({"--versoin"}), "unknown flag --versoin; did you mean --version?");
}

TEST(BadInputTest, AnUnknownCommandIsNamedWithTheNearestOne) {
  Bench bench;
  expect_usage(bench.run({"lanch", "--", kStubPath}), "unknown command lanch; did you mean launch?");
}

TEST(BadInputTest, AValueOutOfRangeNamesItsFlag) {
  Bench bench;
  expect_usage(bench.run({"launch", "-n", "0", "--", kStubPath}), "--nproc-per-node");
  expect_usage(bench.run({"launch", "--threads", "two", "--", kStubPath}), "--threads");
  bench.env["SAMERUN_THREADS"] = "many";
  expect_usage(bench.run({"launch", "--", kStubPath}), "SAMERUN_THREADS");
}

TEST(BadInputTest, NoProgram) {
  Bench bench;
  expect_usage(bench.run({"launch", "-n", "2"}), "no program given");
  expect_usage(bench.run({"pair", "-n", "2", "--"}), "no program given");
}

TEST(BadInputTest, WhatIsWrongWithTheProgramIsSaid) {
  Bench bench;
  bench.write("train", "\177ELF", true);
  bench.write("data.csv", "1,2,3\n", true);
  bench.write("empty", "", true);
  bench.write("plain.sh", "#!/bin/sh\n");
  std::filesystem::create_directory(bench.file("folder"));
  expect_usage(bench.run({"launch", "--", "./tarin"}), "does not exist; did you mean ./train?");
  expect_usage(bench.run({"launch", "--", "train"}), "not in PATH; did you mean ./train?");
  expect_usage(bench.run({"launch", "--", "./data.csv"}), "neither an ELF program nor a script");
  expect_usage(bench.run({"launch", "--", "./empty"}), "is an empty file");
  expect_usage(bench.run({"launch", "--", "./plain.sh"}), "is not executable");
  expect_usage(bench.run({"launch", "--", "./folder"}), "is a folder");
  EXPECT_FALSE(std::filesystem::exists(bench.record())) << "a record was made for nothing";
}

TEST(BadInputTest, AProgramThatTheKernelRefusesFailsTheRun) {
  Bench bench;
  bench.write("train", "\177ELF nonsense", true);
  bench.write("train.sh", "#!/no/such/shell\n", true);
  const Ended elf = bench.run({"launch", "-n", "2", "--", "./train"});
  EXPECT_EQ(elf.code, 3);
  EXPECT_NE(elf.err.find("cannot execute ./train"), std::string::npos) << elf.err;
  const Ended script = bench.run({"launch", "--", "./train.sh"});
  EXPECT_EQ(script.code, 3);
  EXPECT_NE(script.err.find("its interpreter or loader is missing"), std::string::npos) << script.err;
  EXPECT_NE(bench.run({"runs"}).out.find("failed"), std::string::npos);
}

TEST(BadInputTest, ARecordFolderThatCannotBeWrittenIsNamed) {
  Bench bench;
  bench.write("taken", "a file");
  const Ended ended = bench.run({"launch", "--record-dir", "taken", "--", kStubPath, "mark=ran", "hello", "bye"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(ended.err.find("taken"), std::string::npos) << ended.err;
  EXPECT_FALSE(std::filesystem::exists(bench.file("ran.0")));
}

TEST(BadInputTest, AMissingRecordOrRunIsSaid) {
  Bench bench;
  const Ended none = bench.run({"runs"});
  EXPECT_EQ(none.code, 3);
  EXPECT_NE(none.err.find(".samerun"), std::string::npos) << none.err;
  EXPECT_FALSE(std::filesystem::exists(bench.record())) << "reading made a record";
  bench.run({"launch", "--", kStubPath, "hello", "bye"});
  expect_usage(bench.run({"show", "99"}), "no run 99");
  expect_usage(bench.run({"verify", "1", "99"}), "no run 99");
  expect_usage(bench.run({"show", "first"}), "RUN");
}

TEST(BadInputTest, AMalformedVariableOfAPairIsNamed) {
  Bench bench;
  expect_usage(bench.run({"pair", "--candidate-env", "NOVALUE", "--", kStubPath}), "--candidate-env wants NAME=VALUE");
  expect_usage(bench.run({"pair", "--reference", "half", "--", kStubPath}), "--reference");
  EXPECT_FALSE(std::filesystem::exists(bench.record()));
}

TEST(BadInputTest, HelpAndVersionGoToStdout) {
  Bench bench;
  EXPECT_EQ(bench.run({"--version"}).out, "samerun 0.1.0\n");
  for (const char* command : {"launch", "pair", "verify", "runs", "show", "env"}) {
    const Ended help = bench.run({command, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find(std::string("samerun ") + command), std::string::npos) << help.out;
    EXPECT_EQ(help.err, "");
  }
}

TEST(BadInputTest, TheTableOfFlagsIsWhatTheParserKnows) {
  Bench bench;
  EXPECT_EQ(bench.run({"help-table"}).out, read_file(kCommandsPath)) << "run: samerun help-table > cli/COMMANDS.md";
}

TEST(BadInputTest, ADamagedRecordIsSaidOnceAndLeftAsItIs) {
  Bench bench;
  std::filesystem::create_directories(bench.record());
  const std::string path = bench.record() + "/samerun.db", bytes(8192, 'x');
  std::ofstream(path) << bytes;
  const Ended ended = bench.run({"runs"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  EXPECT_NE(ended.err.find("damaged"), std::string::npos) << ended.err;
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), bytes);
}

TEST(BadInputTest, AnEmptyRecordFolderAndASeedThatDoesNotFitAreWrongUsage) {
  Bench bench;
  EXPECT_EQ(bench.run({"launch", "--record-dir", "", "--", kStubPath, "hello", "bye"}).code, 2);
  EXPECT_EQ(bench.run({"launch", "--seed", "-1", "--", kStubPath, "hello", "bye"}).code, 2);
  EXPECT_EQ(bench.run({"launch", "--seed", "99999999999999999999", "--", kStubPath, "hello", "bye"}).code, 2);
}

TEST(BadInputTest, AGoodRunWhoseRecordLacksRowsIsNoSuccess) {
  Bench bench;
  const std::string script = std::string("head -c 4096 /dev/zero > $SAMERUN_STAGING/rank-0000.db; exec ") + kStubPath + " hello bye";
  const Ended ended = bench.run({"launch", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_NE(ended.err.find("ended with code 0, but the record of run 1 is not complete"), std::string::npos) << ended.err;
}

// What did not fit into stdout's buffer was lost on a full disk, with exit code 0.
TEST(BadInputTest, OutputThatCannotBeWrittenIsNoSuccessAndIsSaid) {
  Bench bench;
  for (const char* words : {"help-table", "--version"}) {
    const std::string script = std::string(kSamerunPath) + " " + words + " > /dev/full; echo code $?";
    const Ended ended = bench.run({"launch", "-q", "--no-record", "--", "/bin/sh", "-c", script});
    EXPECT_NE(ended.out.find("code 3\n"), std::string::npos) << words << ": " << ended.out;
    EXPECT_NE(ended.err.find("samerun: standard output could not be written"), std::string::npos) << words << ": " << ended.err;
  }
}

}  // namespace
}  // namespace samerun::launch_test
