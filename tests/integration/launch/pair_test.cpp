// The runs that `samerun pair` makes and what each is told. The stub leaves no rows, so no verdict can be `same`.
#include <gtest/gtest.h>

#include <filesystem>

#include "harness.h"
#include "paths.h"
#include "samerun/recorder/reader.h"

namespace samerun::launch_test {
namespace {

/// What each run of the only pair was told, by role: its log.
std::map<std::string, std::string> logs_by_role(const Bench& bench) {
  std::map<std::string, std::string> logs;
  for (const recorder::RunRow& run : recorder::Reader(bench.record()).runs()) {
    logs[run.role] = read_file(bench.record() + "/logs/" + std::to_string(run.id) + ".log");
  }
  return logs;
}

bool says(const std::string& log, const std::string& line) {
  return ("\n" + log).find("\n[0] " + line + "\n") != std::string::npos;
}

Words pair_words(const Words& flags, const Words& stub_words) {
  Words words{"pair"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--", kStubPath});
  words.insert(words.end(), stub_words.begin(), stub_words.end());
  return words;
}

TEST(PairTest, MakesTheRunsInOrderUnderOneGroup) {
  Bench bench;
  const Ended ended = bench.run(pair_words({"-n", "3"}, {"hello", "bye"}));
  const std::vector<recorder::RunRow> runs = recorder::Reader(bench.record()).runs();
  ASSERT_EQ(runs.size(), 8u) << ended.err;
  const Words roles{"candidate", "reference", "candidate64", "reference64", "rerun64-1", "rerun64-2", "rerun64-3", "rerun64-4"};
  for (std::size_t i = 0; i < roles.size(); ++i) {
    EXPECT_EQ(runs[i].role, roles[i]);
    EXPECT_EQ(runs[i].world_size, roles[i].starts_with("candidate") ? 3 : 1);
    EXPECT_EQ(runs[i].status, "finished");
    EXPECT_EQ(runs[i].group_id, runs[0].group_id);
  }
  EXPECT_NE(runs[0].group_id, "");
  EXPECT_EQ(recorder::Reader(bench.record()).group(runs[0].group_id).size(), 8u);
  EXPECT_FALSE(has_control_characters(ended.err));
}

TEST(PairTest, RunsWithoutRowsAreNeverTheSame) {
  Bench bench;
  const Ended ended = bench.run(pair_words({"-n", "2"}, {"hello", "bye"}));
  EXPECT_EQ(ended.code, 4) << ended.out << ended.err;
  EXPECT_EQ(bench.run({"verify", "2", "1"}).code, 4);
  EXPECT_EQ(bench.run({"verify", "1", "2", "--json"}).out.front(), '{');
}

TEST(PairTest, EachRunIsToldItsPart) {
  Bench bench;
  bench.env["SAMERUN_VARIATION"] = "3";  // Left over in the shell: must reach no run that is not told so.
  Words words{"hello"};
  for (const char* name :
       {"PRECISION", "REPLAY_WORLD", "REFERENCE", "VARIATION", "LOCKED_STEPS", "LOCKED_OF", "STOP_AFTER_STEPS", "SHADOW", "THREADS", "SEED"}) {
    words.push_back(std::string("env=SAMERUN_") + name);
  }
  words.push_back("bye");
  bench.run(pair_words({"-n", "2", "--threads", "1", "--seed", "5", "--steps", "9", "--shadow-steps", "30", "--reference", "whole"}, words));
  std::map<std::string, std::string> logs = logs_by_role(bench);
  for (const auto& [role, log] : logs) {
    const bool wide = role.find("64") != std::string::npos, candidate = role.starts_with("candidate"), rerun = role.starts_with("rerun");
    EXPECT_TRUE(says(log, wide ? "SAMERUN_PRECISION=float64" : "SAMERUN_PRECISION=")) << role << log;
    EXPECT_TRUE(says(log, candidate ? "SAMERUN_REPLAY_WORLD=" : "SAMERUN_REPLAY_WORLD=2")) << role << log;
    EXPECT_TRUE(says(log, candidate ? "SAMERUN_REFERENCE=" : "SAMERUN_REFERENCE=whole")) << role << log;
    EXPECT_TRUE(says(log, rerun ? "SAMERUN_VARIATION=" + role.substr(8) : "SAMERUN_VARIATION=")) << role << log;
    EXPECT_TRUE(says(log, rerun ? "SAMERUN_LOCKED_STEPS=" : "SAMERUN_LOCKED_STEPS=0")) << role << log;
    EXPECT_TRUE(says(log, wide ? "SAMERUN_STOP_AFTER_STEPS=" : "SAMERUN_STOP_AFTER_STEPS=9")) << role << log;
    EXPECT_TRUE(says(log, wide ? "SAMERUN_SHADOW=20:30" : "SAMERUN_SHADOW=")) << role << log;
    EXPECT_TRUE(says(log, "SAMERUN_THREADS=1") && says(log, "SAMERUN_SEED=5")) << role << log;
  }
  EXPECT_TRUE(says(logs["reference"], "SAMERUN_LOCKED_OF=1"));
  EXPECT_TRUE(says(logs["reference64"], "SAMERUN_LOCKED_OF=3"));
  EXPECT_TRUE(says(logs["candidate"], "SAMERUN_LOCKED_OF="));
}

TEST(PairTest, TheReferenceReadsWhatItsCandidateCaptured) {
  Bench bench;
  bench.run(pair_words({"-n", "2", "--keep-captures"}, {"hello", "env=SAMERUN_CAPTURE_TO", "env=SAMERUN_LOCKED_FROM", "bye"}));
  std::map<std::string, std::string> logs = logs_by_role(bench);
  const std::string group = recorder::Reader(bench.record()).run(1)->group_id;
  const std::filesystem::path folder = std::filesystem::path(bench.record()) / "captures" / group;
  EXPECT_TRUE(says(logs["candidate"], "SAMERUN_CAPTURE_TO=" + (folder / "candidate").string())) << logs["candidate"];
  EXPECT_TRUE(says(logs["reference"], "SAMERUN_LOCKED_FROM=" + (folder / "candidate").string())) << logs["reference"];
  EXPECT_TRUE(says(logs["candidate64"], "SAMERUN_CAPTURE_TO=" + (folder / "candidate64").string()));
  EXPECT_TRUE(says(logs["reference64"], "SAMERUN_LOCKED_FROM=" + (folder / "candidate64").string()));
  EXPECT_TRUE(says(logs["rerun64-1"], "SAMERUN_LOCKED_FROM="));
  EXPECT_TRUE(std::filesystem::exists(folder));
}

TEST(PairTest, CapturesAreRemovedUnlessKept) {
  Bench bench;
  bench.run(pair_words({"-n", "2"}, {"hello", "bye"}));
  const std::string group = recorder::Reader(bench.record()).run(1)->group_id;
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(bench.record()) / "captures" / group));
}

TEST(PairTest, VariablesOfOneSideDoNotReachTheOther) {
  Bench bench;
  bench.run(pair_words({"-n", "2", "--candidate-env", "A=1=x", "--candidate-env", "B=2", "--reference-env", "C=3"},
                       {"hello", "env=A", "env=B", "env=C", "bye"}));
  for (const auto& [role, log] : logs_by_role(bench)) {
    const bool candidate = role.starts_with("candidate");
    EXPECT_TRUE(says(log, candidate ? "A=1=x" : "A=") && says(log, candidate ? "B=2" : "B=") && says(log, candidate ? "C=" : "C=3")) << role << log;
  }
}

TEST(PairTest, AFailedCandidateEndsThePair) {
  Bench bench;
  const Ended ended = bench.run(pair_words({"-n", "2"}, {"hello", "1:err=broken", "1:exit=6", "wait"}));
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(ended.err.find("candidate (run 1) failed: rank 1"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("  | broken"), std::string::npos) << ended.err;
  EXPECT_EQ(recorder::Reader(bench.record()).runs().size(), 1u);
}

TEST(PairTest, AFailedReferenceEndsThePair) {
  Bench bench;
  const Ended ended = bench.run(pair_words({"-n", "2"}, {"hello", "unless=SAMERUN_REPLAY_WORLD", "bye"}));
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(ended.err.find("reference (run 2) failed"), std::string::npos) << ended.err;
}

TEST(PairTest, AFailedShadowLeavesAVerdictThatIsNotSame) {
  Bench bench;
  const Ended ended = bench.run(pair_words({"-n", "2"}, {"hello", "unless=SAMERUN_SHADOW", "bye"}));
  EXPECT_EQ(ended.code, 4) << ended.err;
  EXPECT_NE(ended.err.find("candidate64 (run 3) failed"), std::string::npos) << ended.err;
  EXPECT_NE(ended.out, "");
}

}  // namespace
}  // namespace samerun::launch_test
