// Resume checks as rows: faults of saving and loading, each beside the clean check that passes.
#include <algorithm>

#include "fake_pair.h"
#include "samerun/core/error.h"

namespace samerun::verify {
namespace {

struct Point {
  std::int64_t steps = 0, rounds = 0;
};

/// A resume check of three points: within epoch 0, within a window, at the epoch's end.
struct FakeCheck {
  FakeRun straight;
  std::vector<Point> points{{1, 0}, {1, 1}, {3, 0}};
  std::vector<FakeRun> saving, resumed, cold;

  std::vector<FakeRun*> all_resumed() {
    std::vector<FakeRun*> runs;
    for (FakeRun& run : resumed) runs.push_back(&run);
    return runs;
  }
};

const char* const kLeaves[] = {"model/body.weight",          "optimizer/body.weight/exp_avg",
                               "optimizer/body.weight/step", "scheduler/steps",
                               "loader/train/cursor",        "loader/train/epoch",
                               "streams/generator",          "alias/head.weight"};

template <class T, class Keep>
void keep_if(std::vector<T>& rows, const Keep& keep) {
  rows.erase(std::remove_if(rows.begin(), rows.end(), [&](const T& row) { return !keep(row); }), rows.end());
}

void add_leaves(FakeRun& run, const Point& point, const std::string& moment) {
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    for (const char* path : kLeaves) {
      const std::string text = std::string(path) + " after " + std::to_string(point.steps) + "+" + std::to_string(point.rounds);
      run.ranks[rank].leaves.push_back({point.steps, moment, path, digest_text(text + " on " + std::to_string(rank))});
    }
  }
}

void rename_run(FakeRun& run, const char* role, std::size_t number) {
  run.role = std::string(role) + "-" + std::to_string(number);
}

/// Saves at the point and is killed two steps later.
FakeRun saving_run(const FakeRun& straight, const Point& point, std::size_t number) {
  FakeRun run = straight;
  rename_run(run, "saving", number);
  run.status = "stopped";
  run.says_bye = false;
  const std::int64_t killed = point.steps + 2;
  for (FakeRank& rank : run.ranks) {
    CheckpointCommitted checkpoint;
    checkpoint.position.optimizer_step = point.steps;
    std::int64_t left = point.rounds;
    for (const Shard& shard : rank.shards) {
      if (shard.step < 0 || shard.step > point.steps || (shard.step == point.steps && left-- <= 0)) continue;
      checkpoint.position.epoch = shard.epoch;
      checkpoint.position.batch_index = shard.global_batch;
    }
    checkpoint.path = "/checkpoints/save-at";
    rank.checkpoints.push_back(checkpoint);
    keep_if(rank.steps, [&](const Step& row) { return row.step < killed; });
    keep_if(rank.groups, [&](const GroupStep& row) { return row.step < killed; });
    keep_if(rank.tensors, [&](const TensorTrace& row) { return row.step < killed; });
    keep_if(rank.metrics, [&](const Metric& row) { return row.step < killed; });
    keep_if(rank.sample_values, [&](const SampleValues& row) { return row.step < killed; });
    keep_if(rank.shards, [&](const Shard& row) { return row.step >= 0 ? row.step < killed : (row.epoch + 1) * 3 < killed; });
  }
  add_leaves(run, point, "saved");
  return run;
}

/// Begins at the point. Its evaluations count their passes from 0.
FakeRun resumed_run(const FakeRun& straight, const Point& point, std::size_t number) {
  FakeRun run = straight;
  rename_run(run, "resumed", number);
  for (FakeRank& rank : run.ranks) {
    keep_if(rank.steps, [&](const Step& row) { return row.step >= point.steps; });
    keep_if(rank.groups, [&](const GroupStep& row) { return row.step >= point.steps; });
    keep_if(rank.tensors, [&](const TensorTrace& row) { return row.step < 0 || row.step >= point.steps; });
    keep_if(rank.metrics, [&](const Metric& row) { return row.step > point.steps; });
    keep_if(rank.sample_values, [&](const SampleValues& row) { return row.step > point.steps; });
    std::int64_t left_out = 0;
    keep_if(rank.shards, [&](const Shard& row) {
      if (row.step < 0) return (row.epoch + 1) * 3 > point.steps;
      if (row.step == point.steps && left_out < point.rounds) return ++left_out == 0;
      return row.step >= point.steps;
    });
    std::int64_t first_pass = kSteps;
    for (const Shard& row : rank.shards) first_pass = std::min(first_pass, row.step < 0 ? row.pass : kSteps);
    for (Shard& row : rank.shards) row.pass -= row.step < 0 ? first_pass : 0;
  }
  add_leaves(run, point, "loaded");
  return run;
}

FakeRun cold_run(const FakeRun& resumed, std::size_t number) {
  FakeRun run = resumed;
  rename_run(run, "cold", number);
  for (FakeRank& rank : run.ranks) {
    rank.leaves.clear();
    for (Step& step : rank.steps) change_bits(step.root_update);
  }
  return run;
}

FakeCheck clean_check() {
  FakeCheck check;
  check.straight = clean_pair().candidate;
  check.straight.role = "straight";
  for (std::size_t i = 0; i < check.points.size(); ++i) {
    check.saving.push_back(saving_run(check.straight, check.points[i], i + 1));
    check.resumed.push_back(resumed_run(check.straight, check.points[i], i + 1));
    check.cold.push_back(cold_run(check.resumed.back(), i + 1));
  }
  return check;
}

class ResumeTest : public PairTest {
 protected:
  Report judge_check(const FakeCheck& check) {
    write_run(check.straight, "check");
    for (std::size_t i = 0; i < check.points.size(); ++i) {
      for (const auto* runs : {&check.saving, &check.resumed, &check.cold}) {
        if (i < runs->size()) write_run((*runs)[i], "check");
      }
    }
    return verify_resume(recorder::Reader(folder_ + "/record"), "check");
  }
};

/// Changes a leaf that was loaded on `rank`, at every point.
void lose_leaf(FakeCheck& check, const std::string& path, int rank, bool missing) {
  for (FakeRun* run : check.all_resumed()) {
    for (StateLeaf& leaf : run->rank(rank).leaves) {
      if (leaf.path == path) change_bits(leaf.digest);
    }
    if (missing) keep_if(run->rank(rank).leaves, [&](const StateLeaf& leaf) { return leaf.path != path; });
  }
}

std::int64_t findings_of(const Report& report, const std::string& check) {
  return std::count_if(report.checks.begin(), report.checks.end(),
                       [&](const CheckResult& result) { return result.name == check && result.word != Verdict::kSame; });
}

testing::AssertionResult first_is(const Report& report, const std::string& check, const std::string& stage, const std::string& tensor,
                                  std::int64_t step, int rank) {
  if (report.verdict == Verdict::kDifferent && report.first && report.first->check == check && report.first->stage == stage &&
      report.first->tensor == tensor && report.first->step == step && report.first->rank == rank) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << all_evidence(report);
}

TEST_F(ResumeTest, ACleanCheckIsTheSameAtEveryPoint) {
  const Report report = judge_check(clean_check());
  EXPECT_TRUE(same(report));
  EXPECT_EQ(report.checks.size(), 13u);
  for (const CheckResult& check : report.checks) EXPECT_EQ(check.word, Verdict::kSame) << check.name << all_evidence(report);
  EXPECT_TRUE(report.not_exercised.empty()) << report.not_exercised.front();
  EXPECT_NE(report.summary.find("at step 1, 1+1, 3 is the run that went straight through"), std::string::npos) << report.summary;
  EXPECT_EQ(report.reference, 1);
  EXPECT_EQ(report.candidate, 9);
  EXPECT_EQ(report.coverage_tensors, 1);
}

TEST_F(ResumeTest, ItsTextFitsAScreen) {
  FakeCheck check = clean_check();
  for (FakeRun* run : check.all_resumed()) {
    for (FakeRank& rank : run->ranks) {
      for (Step& step : rank.steps) change_bits(step.root_update);
    }
  }
  const std::string text = to_text(judge_check(check));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 40) << text;
  EXPECT_NE(text.find("different"), std::string::npos);
}

// R01: the loader starts again at its first batch.
TEST_F(ResumeTest, ALoaderThatStartsAgainIsSampleIds) {
  FakeCheck check = clean_check();
  FakeRun& run = check.resumed[0];
  for (int rank = 0; rank < kRanks; ++rank) {
    for (std::size_t i = 0; i < run.rank(rank).shards.size(); ++i) {
      if (run.rank(rank).shards[i].step == 1) run.rank(rank).shards[i].ids = check.straight.rank(rank).shards[i].ids;
    }
  }
  lose_leaf(check, "loader/train/cursor", 0, false);
  const Report report = judge_check(check);
  EXPECT_TRUE(first_is(report, "round trip", "checkpoint leaf", "loader/train/cursor", 1, 0));
  EXPECT_EQ(first_evidence(report, "trajectory").stage, "sample ids") << all_evidence(report);
}

// R02: after the load the order of epoch 0 is taken; nothing that was saved is lost.
TEST_F(ResumeTest, TheOrderOfAnotherEpochIsSampleIds) {
  FakeCheck check = clean_check();
  FakeRun& run = check.resumed[2];
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<Shard>& first = check.straight.rank(rank).shards;
    for (Shard& shard : run.rank(rank).shards) {
      const auto found = std::find_if(first.begin(), first.end(), [&](const Shard& other) {
        return other.step >= 0 && other.epoch == 0 && shard.step >= 0 && other.global_batch == shard.global_batch;
      });
      if (found != first.end()) shard.ids = found->ids;
    }
  }
  EXPECT_TRUE(first_is(judge_check(check), "trajectory", "sample ids", "", 3, 0));
}

// R06: the optimizer's moments are not loaded.
TEST_F(ResumeTest, LostMomentsAreNamedByLeaf) {
  FakeCheck check = clean_check();
  lose_leaf(check, "optimizer/body.weight/exp_avg", 0, true);
  for (FakeRun* run : check.all_resumed()) {
    const std::int64_t step = run->rank(0).steps.front().step;
    run->each_step(step, [](Step& row, int) {
      change_bits(row.root_moments_before);
      change_bits(row.root_update);
    });
    run->each_tensor(stage::kUpdate, step, kBody, [](TensorTrace& row, int) { change_bits(row.digest); });
  }
  const Report report = judge_check(check);
  EXPECT_TRUE(first_is(report, "round trip", "checkpoint leaf", "optimizer/body.weight/exp_avg", 1, 0));
  const CheckResult* trajectory = find_check(report, "trajectory");
  ASSERT_NE(trajectory, nullptr);
  EXPECT_TRUE(std::any_of(trajectory->evidence.begin(), trajectory->evidence.end(), [](const Evidence& evidence) {
    return evidence.stage == "update" && evidence.tensor == kBody && evidence.step == 1;
  })) << all_evidence(report);
}

// R07: the optimizer's step counter restarts.
TEST_F(ResumeTest, ALostStepCounterIsNamedByLeaf) {
  FakeCheck check = clean_check();
  lose_leaf(check, "optimizer/body.weight/step", 0, false);
  EXPECT_TRUE(first_is(judge_check(check), "round trip", "checkpoint leaf", "optimizer/body.weight/step", 1, 0));
}

// R09: the schedule restarts, and no leaf tells of it.
TEST_F(ResumeTest, ARestartedScheduleIsItsLearningRate) {
  FakeCheck check = clean_check();
  for (FakeRank& rank : check.resumed[0].ranks) {
    for (GroupStep& group : rank.groups) group.learning_rate *= 0.5;
  }
  EXPECT_TRUE(first_is(judge_check(check), "trajectory", "learning rate", "", 1, 0));
}

// R14: each rank gets rank 0's random state; streams are keyed by position, so no later step shows it.
TEST_F(ResumeTest, ARankWithAnothersRandomStateIsNamedWithItsRank) {
  FakeCheck check = clean_check();
  for (FakeRun* run : check.all_resumed()) {
    for (StateLeaf& leaf : run->rank(2).leaves) {
      if (leaf.path != "streams/generator") continue;
      for (const StateLeaf& other : run->rank(0).leaves) {
        if (other.path == leaf.path) leaf.digest = other.digest;
      }
    }
  }
  const Report report = judge_check(check);
  EXPECT_TRUE(first_is(report, "round trip", "checkpoint leaf", "streams/generator", 1, 2));
  EXPECT_EQ(findings_of(report, "trajectory"), 0);
  EXPECT_EQ(findings_of(report, "round trip"), 3);
}

// C01: one rank loads an older checkpoint.
TEST_F(ResumeTest, ARankThatLoadsAnotherStepIsNamedWithItsRank) {
  FakeCheck check = clean_check();
  FakeRun& run = check.resumed[2];
  keep_if(run.rank(1).leaves, [](const StateLeaf&) { return false; });
  FakeRun older = check.straight;
  add_leaves(older, {2, 0}, "loaded");
  run.rank(1).leaves = older.rank(1).leaves;
  EXPECT_TRUE(first_is(judge_check(check), "round trip", "checkpoint leaf", "alias/head.weight", 3, 1));
}

// C13: two names of one tensor are two tensors after the load.
TEST_F(ResumeTest, ABrokenTieIsTheLostAlias) {
  FakeCheck check = clean_check();
  lose_leaf(check, "alias/head.weight", 0, true);
  EXPECT_TRUE(first_is(judge_check(check), "round trip", "checkpoint leaf", "alias/head.weight", 1, 0));
}

TEST_F(ResumeTest, ALeafThatWasNotSavedIsAFinding) {
  FakeCheck check = clean_check();
  check.resumed[1].rank(0).leaves.push_back({1, "loaded", "optimizer/extra", digest_text("x")});
  EXPECT_TRUE(first_is(judge_check(check), "round trip", "checkpoint leaf", "optimizer/extra", 1, 0));
}

TEST_F(ResumeTest, ASaveThatUpsetsTrainingIsFoundBeforeTheResume) {
  FakeCheck check = clean_check();
  check.saving[0].each_step(2, [](Step& row, int) { change_bits(row.root_raw); });
  check.saving[0].each_tensor(stage::kRaw, 2, kHead, [](TensorTrace& row, int) { change_bits(row.digest); });
  EXPECT_TRUE(first_is(judge_check(check), "saving", "reduced gradient", kHead, 2, 0));
}

TEST_F(ResumeTest, AProgramThatDoesNotRepeatItselfIsInconclusive) {
  FakeCheck check = clean_check();
  for (FakeRun& run : check.saving) run.each_step(0, [](Step& row, int) { change_bits(row.root_raw); });
  for (FakeRun& run : check.resumed) run.each_step(4, [](Step& row, int) { change_bits(row.root_raw); });
  const Report report = judge_check(check);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_NE(report.summary.find("does not repeat itself"), std::string::npos) << report.summary;
}

TEST_F(ResumeTest, AColdStartThatPassesForAResumeIsRefused) {
  FakeCheck check = clean_check();
  check.cold[1] = check.resumed[1];
  rename_run(check.cold[1], "cold", 2);
  const Report report = judge_check(check);
  EXPECT_EQ(report.verdict, Verdict::kRefused) << all_evidence(report);
  EXPECT_NE(report.summary.find("a cold start at step 1+1"), std::string::npos) << report.summary;
}

TEST_F(ResumeTest, ADifferenceStandsThoughAControlIsVacuous) {
  FakeCheck check = clean_check();
  lose_leaf(check, "scheduler/steps", 0, false);
  check.cold[1] = check.resumed[1];
  rename_run(check.cold[1], "cold", 2);
  EXPECT_TRUE(first_is(judge_check(check), "round trip", "checkpoint leaf", "scheduler/steps", 1, 0));
}

TEST_F(ResumeTest, ARunThatIsMissingIsInconclusive) {
  FakeCheck check = clean_check();
  check.cold.pop_back();
  EXPECT_EQ(judge_check(check).verdict, Verdict::kInconclusive);
}

TEST_F(ResumeTest, AResumedRunThatLacksRowsIsInconclusive) {
  FakeCheck check = clean_check();
  check.resumed[0].says_bye = false;
  check.resumed[0].status = "failed";
  for (FakeRank& rank : check.resumed[0].ranks) keep_if(rank.steps, [](const Step& row) { return row.step < 4; });
  const Report report = judge_check(check);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
}

TEST_F(ResumeTest, ARunThatDidNotEndWellIsInconclusiveThoughItsRowsAreThere) {
  FakeCheck resumed = clean_check(), straight = clean_check();
  resumed.resumed[0].says_bye = false;
  EXPECT_EQ(judge_check(resumed).verdict, Verdict::kInconclusive);
  TearDown();
  SetUp();
  straight.straight.says_bye = false;
  EXPECT_EQ(judge_check(straight).verdict, Verdict::kInconclusive);
}

TEST_F(ResumeTest, AStepThatIsNotMadeIsDifferent) {
  FakeCheck check = clean_check();
  for (FakeRank& rank : check.resumed[0].ranks) keep_if(rank.steps, [](const Step& row) { return row.step < 5; });
  EXPECT_TRUE(first_is(judge_check(check), "trajectory", "steps", "", 5, 0));
}

TEST_F(ResumeTest, ASampleThatIsLeftOutIsItsBatch) {
  FakeCheck check = clean_check();
  for (FakeRank& rank : check.resumed[1].ranks) keep_if(rank.shards, [](const Shard& row) { return row.step != 1; });
  EXPECT_TRUE(first_is(judge_check(check), "trajectory", "sample ids", "", 1, 0));
}

TEST_F(ResumeTest, AMetricThatForgotItsSumIsNamed) {
  FakeCheck check = clean_check();
  for (FakeRun* run : check.all_resumed()) {
    for (Metric& metric : run->rank(0).metrics) {
      if (metric.name == "loss") metric.value += 1;
    }
  }
  EXPECT_TRUE(first_is(judge_check(check), "trajectory", "metric", "loss", 3, 0));
}

TEST_F(ResumeTest, ALoggedTimeIsNoFindingAndIsSaid) {
  FakeCheck check = clean_check();
  double seconds = 1;
  std::vector<FakeRun*> runs = check.all_resumed();
  for (FakeRun& run : check.saving) runs.push_back(&run);
  for (FakeRun* run : runs) {
    for (Metric& metric : run->rank(0).metrics) {
      if (metric.rule == "logged") metric.value = seconds += 0.125;
    }
  }
  const Report report = judge_check(check);
  EXPECT_TRUE(same(report));
  ASSERT_EQ(report.not_exercised.size(), 1u) << all_evidence(report);
  EXPECT_NE(report.not_exercised.front().find("validation"), std::string::npos);
}

TEST_F(ResumeTest, KindsOfPointsThatWereLeftOutAreSaid) {
  FakeCheck check = clean_check();
  check.points.resize(1);
  const Report report = judge_check(check);
  EXPECT_TRUE(same(report));
  EXPECT_EQ(report.not_exercised.size(), 2u);
}

TEST_F(ResumeTest, RunsOfAnotherProgramAreRefused) {
  FakeCheck check = clean_check();
  check.resumed[0].argv.emplace_back("--other");
  EXPECT_EQ(judge_check(check).verdict, Verdict::kRefused);
}

TEST_F(ResumeTest, AGroupWithoutAStraightRunIsAnError) {
  write_run(clean_pair().candidate, "pair");
  EXPECT_THROW(verify_resume(recorder::Reader(folder_ + "/record"), "pair"), Error);
}

}  // namespace
}  // namespace samerun::verify
