// A run that ends in the middle and goes on in new processes: all that is recorded from there on has the bits of the uninterrupted run.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "ranks.h"
#include "samerun/core/digest.h"
#include "samerun/recorder/reader.h"

namespace samerun::ranks_test {
namespace {

using recorder::Reader;
using Rows = std::multiset<std::string>;

std::string word(const std::string& text) {
  return text;
}
std::string word(const Digest& digest) {
  return to_hex(digest);
}
std::string word(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}
template <class Whole>
std::string word(Whole value) {
  return std::to_string(value);
}
template <class... Parts>
std::string line(const Parts&... parts) {
  std::string text;
  ((text += word(parts) + " "), ...);
  return text;
}

Rows rows_of(const Reader& reader, std::int64_t run) {
  Rows rows;
  for (const auto& [rank, s] : reader.shards(run))
    rows.insert(line(std::string("shard"), rank, s.purpose, s.epoch, s.pass, s.round, s.global_batch, s.step, recorder::ids_to_text(s.ids), s.real,
                     s.filler, s.stream_key, s.digest));
  for (const auto& [rank, s] : reader.steps(run)) {
    rows.insert(line(std::string("step"), rank, s.step, s.position.epoch, s.position.batch_index, s.position.micro_step, s.position.optimizer_step,
                     s.position.samples_seen, s.micro_batches, s.samples_counted, s.samples_set, s.loss_numerator, s.loss_denominator, s.norm_raw,
                     s.clip_max, s.clip_factor, s.skipped));
    rows.insert(line(std::string("roots"), rank, s.step, s.root_raw, s.root_clipped, s.root_update, s.root_before, s.root_after,
                     s.root_moments_before, s.root_moments_after));
  }
  for (const auto& [rank, g] : reader.group_steps(run))
    rows.insert(line(std::string("group"), rank, g.step, g.group, g.learning_rate, g.weight_decay, g.beta1, g.beta2, g.epsilon, g.momentum));
  for (const auto& [rank, m] : reader.metrics(run))
    rows.insert(line(std::string("metric"), rank, m.step, m.epoch, m.name, m.value, m.purpose, m.pass, m.numerator, m.denominator, m.rows));
  for (const auto& [rank, s] : reader.sample_values(run)) {
    std::string text;
    for (const auto value : s.values) text += word(value) + ",";
    rows.insert(line(std::string("samples"), rank, s.step, s.epoch, s.purpose, s.pass, s.name, recorder::ids_to_text(s.ids), text));
  }
  for (const char* stage : {stage::kRaw, stage::kClipped, stage::kUpdate, stage::kState}) {
    reader.tensors(run, stage, [&](const recorder::TensorRow& row) {
      rows.insert(line(std::string(stage), row.rank, row.trace.step, row.trace.name, row.trace.digest, row.trace.norm));
    });
  }
  return rows;
}

Rows without(const Rows& all, const Rows& taken) {
  Rows rest;
  std::set_difference(all.begin(), all.end(), taken.begin(), taken.end(), std::inserter(rest, rest.end()));
  return rest;
}

struct Scenario {
  std::string name;
  int ranks = 1;
  std::string accumulation = "1", save_at, kill_at;
  Words words;
};
void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

/// One folder for the three runs.
class Resumed {
 public:
  explicit Resumed(const Scenario& scenario) : scenario_(scenario) { bench_.env["SAMERUN_ACCUMULATION_STEPS"] = scenario.accumulation; }

  Ended run(const std::map<std::string, std::string>& env, const Words& more = {}) {
    auto kept = bench_.env;
    for (const auto& [name, value] : env) bench_.env[name] = value;
    Words arguments{"launch", "-n", std::to_string(scenario_.ranks), "--prefix", "--", kCheckpointFixturePath, "checkpoints"};
    arguments.insert(arguments.end(), scenario_.words.begin(), scenario_.words.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto ended = bench_.run(arguments);
    bench_.env = kept;
    return ended;
  }
  std::string checkpoint(const std::string& name) const { return bench_.file("checkpoints/" + name); }
  /// Run `number` of the record, from 1.
  Rows rows(std::int64_t number) const {
    const Reader reader(bench_.record());
    return rows_of(reader, reader.runs().at(static_cast<std::size_t>(number - 1)).id);
  }
  std::multiset<std::string> leaves(std::int64_t number, const std::string& moment) const {
    const Reader reader(bench_.record());
    std::multiset<std::string> found;
    for (const auto& [rank, leaf] : reader.state_leaves(reader.runs().at(static_cast<std::size_t>(number - 1)).id)) {
      if (leaf.moment == moment) found.insert(line(rank, leaf.step, leaf.path, leaf.digest));
    }
    return found;
  }

 private:
  Scenario scenario_;
  Bench bench_;
};

class ResumeTest : public testing::TestWithParam<Scenario> {};

TEST_P(ResumeTest, FromTheCheckpointOnEveryRecordedRowIsThatOfTheUninterruptedRun) {
  Resumed runs(GetParam());
  const Ended whole = runs.run({});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Ended killed = runs.run({{"SAMERUN_SAVE_AT", GetParam().save_at}, {"SAMERUN_KILL_AT", GetParam().kill_at}});
  ASSERT_NE(killed.code, 0) << "it was to end by a signal: " << killed.out;
  const Ended resumed = runs.run({{"SAMERUN_RESUME_FROM", runs.checkpoint("save-at")}, {"SAMERUN_POISON", "1"}});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  for (int rank = 0; rank < GetParam().ranks; ++rank) {
    EXPECT_EQ(values(resumed, rank, "state"), values(whole, rank, "state"));
    EXPECT_EQ(values(resumed, rank, "trail"), values(whole, rank, "trail"));
  }
  const auto a = runs.rows(1), before = runs.rows(2), b = runs.rows(3);
  ASSERT_FALSE(b.empty());
  const auto extra = without(b, a);
  EXPECT_TRUE(extra.empty()) << extra.size() << " rows, the first: " << *extra.begin();
  EXPECT_TRUE(without(before, a).empty()) << "saving has disturbed the run: " << *without(before, a).begin();
  const auto lost = without(without(a, b), before);
  EXPECT_TRUE(lost.empty()) << lost.size() << " rows, the first: " << *lost.begin();
  EXPECT_FALSE(runs.leaves(2, "saved").empty());
  EXPECT_EQ(runs.leaves(2, "saved"), runs.leaves(3, "loaded"));
}

// 50 rows in batches of 3, the last of 2: 17 batches an epoch. Two ranks have 9 rounds and three have 6, the last with a filler.
INSTANTIATE_TEST_SUITE_P(AtEachPlace, ResumeTest,
                         testing::Values(Scenario{"OneRankMidEpoch", 1, "1", "5", "8", {}}, Scenario{"OneRankMidWindow", 1, "3", "10+2", "12", {}},
                                         Scenario{"OneRankStart", 1, "2", "0", "3", {}}, Scenario{"TwoRanksMidEpoch", 2, "1", "13", "16", {"sgd"}},
                                         Scenario{"TwoRanksMidWindow", 2, "4", "4+1", "6", {"sgd", "steplr"}},
                                         Scenario{"TwoRanksEpochEnd", 2, "2", "5", "8", {"workers=2"}},
                                         Scenario{"ThreeRanksAfterTheFirstStep", 3, "1", "1", "3", {"hidden=40"}},
                                         Scenario{"ThreeRanksMidEpoch", 3, "1", "4", "8", {"hidden=40"}},
                                         Scenario{"ThreeRanksMidWindow", 3, "2", "4+1", "6", {"rmsprop", "hidden=40"}},
                                         Scenario{"ThreeRanksBeforeTheLastPartialBatch", 3, "2", "2+1", "4", {}},
                                         Scenario{"ThreeRanksEpochEnd", 3, "2", "3", "5", {"steplr"}}),
                         [](const auto& each) { return each.param.name; });

TEST(ResumeLoopTest, SavedByTheProgramAtAnEpochsEndItGoesOnWithTheNextEpoch) {
  Resumed runs({"", 2, "2", "", "", {"save-epochs", "save-twice", "limit=2"}});
  const Ended whole = runs.run({});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_FALSE(std::filesystem::exists(runs.checkpoint("step-00000005"))) << "two are kept";
  const Ended resumed = runs.run({{"SAMERUN_RESUME_FROM", runs.checkpoint("step-00000010")}, {"SAMERUN_POISON", "1"}});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(values(resumed, 1, "epoch"), Words{"2"});
  EXPECT_EQ(values(resumed, 1, "state"), values(whole, 1, "state"));
  const auto extra = without(runs.rows(2), runs.rows(1));
  EXPECT_TRUE(extra.empty()) << *extra.begin();
}

TEST(ResumeLoopTest, AResumedRunMayBeSavedAndResumedAgainWithinTheEpoch) {
  Resumed runs({"", 3, "1", "", "", {"hidden=40"}});
  const Ended whole = runs.run({});
  ASSERT_NE(runs.run({{"SAMERUN_SAVE_AT", "3"}, {"SAMERUN_KILL_AT", "4"}}).code, 0);
  std::filesystem::rename(runs.checkpoint("save-at"), runs.checkpoint("first"));
  const Ended again = runs.run({{"SAMERUN_RESUME_FROM", runs.checkpoint("first")}, {"SAMERUN_SAVE_AT", "5"}, {"SAMERUN_KILL_AT", "6"}});
  ASSERT_NE(again.code, 0) << again.out;
  const Ended resumed = runs.run({{"SAMERUN_RESUME_FROM", runs.checkpoint("save-at")}});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(values(resumed, 2, "state"), values(whole, 2, "state"));
}

TEST(ResumeLoopTest, WeightsAloneDoNotPassForAResumedRun) {
  Resumed runs({"", 2, "1", "", "", {}});
  const Ended whole = runs.run({});
  ASSERT_NE(runs.run({{"SAMERUN_SAVE_AT", "5"}, {"SAMERUN_KILL_AT", "6"}}).code, 0);
  const Ended cold = runs.run({{"SAMERUN_RESUME_FROM", runs.checkpoint("save-at")}, {"SAMERUN_LOAD_ONLY", "weights"}});
  ASSERT_EQ(cold.code, 0) << cold.err;
  EXPECT_NE(values(cold, 0, "state"), values(whole, 0, "state"));
}

TEST(ResumeLoopTest, AProgramThatForgetsToLoadIsToldWhichLineToAdd) {
  Resumed runs({"", 2, "1", "", "", {}});
  ASSERT_NE(runs.run({{"SAMERUN_SAVE_AT", "2"}, {"SAMERUN_KILL_AT", "3"}}).code, 0);
  const Ended ended = runs.run({{"SAMERUN_RESUME_FROM", runs.checkpoint("save-at")}}, {"no-load"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(ended.err.find("if (accelerator.resuming()) accelerator.load_state();"), std::string::npos) << ended.err;
}

TEST(ResumeLoopTest, WhereCheckpointsAreOffNothingIsWritten) {
  Resumed runs({"", 1, "1", "", "", {"save-epochs"}});
  ASSERT_EQ(runs.run({{"SAMERUN_CHECKPOINTS", "off"}}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(runs.checkpoint("")));
}

}  // namespace
}  // namespace samerun::ranks_test
