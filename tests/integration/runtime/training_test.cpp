// What several ranks train.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ranks.h"
#include "samerun/recorder/reader.h"

namespace samerun::ranks_test {
namespace {

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double square = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    square += (a[i] - b[i]) * (a[i] - b[i]);
    scale += b[i] * b[i];
  }
  return std::sqrt(square / scale);
}

/// A bias before a batch norm has no gradient but rounding, which AdamW divides by its epsilon of 1e-8.
constexpr double kNormRounding = 1e-7;

std::map<std::string, std::string> in_float64(int accumulation) {
  return {{"SAMERUN_PRECISION", "float64"}, {"SAMERUN_ACCUMULATION_STEPS", std::to_string(accumulation)}};
}

TEST(TrainingTest, AnyNumberOfRanksTrainsToTheSameParametersWithDropoutOn) {
  // 12 micro-batches a window; 77 samples, so the last window is partial, its last batch short and some ranks get fillers.
  const Ended one = run(1, {"train", "77", "2", "2"}, in_float64(12));
  ASSERT_EQ(one.code, 0) << one.err;
  for (const int n : {2, 3, 4}) {
    const Ended several = run(n, {"train", "77", "2", "2"}, in_float64(12 / n));
    ASSERT_EQ(several.code, 0) << several.err;
    EXPECT_LT(distance(vector_of(several, 0, "state"), vector_of(one, 0, "state")), 1e-12) << n << " ranks";
    for (int rank = 1; rank < n; ++rank) EXPECT_EQ(values(several, rank, "state"), values(several, 0, "state"));
  }
}

TEST(TrainingTest, AReplayOnOneRankTrainsToTheSameParameters) {
  const Ended two = run(2, {"train", "22", "2", "2"}, in_float64(2));
  auto env = in_float64(2);
  env["SAMERUN_REPLAY_WORLD"] = "2";
  const Ended replay = run(1, {"train", "22", "2", "2"}, env);
  EXPECT_LT(distance(vector_of(replay, 0, "state"), vector_of(two, 0, "state")), 1e-12) << replay.err;
}

TEST(TrainingTest, LeavingALoopEarlyTrainsOnAsOnOneRank) {
  for (const char* workers : {"0", "2"}) {
    const Ended one = run(1, {"breaks", workers}, in_float64(2));
    const Ended two = run(2, {"breaks", workers}, in_float64(2));
    ASSERT_EQ(one.code, 0) << one.err;
    ASSERT_EQ(two.code, 0) << two.err;
    EXPECT_EQ(values(one, 0, "batches"), Words{"12"});
    EXPECT_EQ(values(two, 1, "batches"), Words{"6"});
    EXPECT_EQ(values(two, 0, "state"), values(two, 1, "state"));
  }
}

TEST(TrainingTest, ALossThatIsNotANumberHangsNobodyAndReachesEveryRank) {
  const Ended ended = run(2, {"not_a_number"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(values(ended, rank, "batches"), Words{"6"});
    EXPECT_EQ(values(ended, rank, "nan"), Words{"yes"});
  }
}

TEST(TrainingTest, RunningStatisticsAreTheSameOnEveryRankAndThoseOfOneRank) {
  auto env = in_float64(2);
  const Ended two = run(2, {"train", "22", "2", "2", "0", "1"}, env);
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(values(two, 0, "state"), values(two, 1, "state"));
  env["SAMERUN_REPLAY_WORLD"] = "2";
  const Ended replay = run(1, {"train", "22", "2", "2", "0", "1"}, env);
  EXPECT_LT(distance(vector_of(replay, 0, "state"), vector_of(two, 0, "state")), kNormRounding) << replay.err;
}

TEST(TrainingTest, RunningStatisticsAreTheSameWhenTrainIsSaidInsideTheLoopOrAModuleIsUsedTwice) {
  for (const char* twice : {"0", "1"}) {
    auto env = in_float64(2);
    const Ended two = run(2, {"trains_late", twice}, env);
    ASSERT_EQ(two.code, 0) << two.err;
    EXPECT_EQ(values(two, 0, "state"), values(two, 1, "state"));
    env["SAMERUN_REPLAY_WORLD"] = "2";
    const Ended replay = run(1, {"trains_late", twice}, env);
    EXPECT_LT(distance(vector_of(replay, 0, "state"), vector_of(two, 0, "state")), kNormRounding) << replay.err;
  }
}

TEST(TrainingTest, AnEvaluationInsideTheLoopChangesNothingOfTheTraining) {
  for (const int n : {1, 2}) {
    const Ended plain = run(n, {"evaluates_inside", "0"}, in_float64(3));
    const Ended with = run(n, {"evaluates_inside", "1"}, in_float64(3));
    ASSERT_EQ(with.code, 0) << with.err;
    EXPECT_EQ(values(with, 0, "state"), values(plain, 0, "state"));
  }
}

TEST(TrainingTest, AFloat64ShadowWidensFloatsAndKeepsIntegers) {
  const Ended ended = run(2, {"dtypes"}, in_float64(1));
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const int rank : {0, 1}) {
    for (const char* name : {"first.weight", "branch", "norm.weight", "norm.running_mean", "norm.running_var"})
      EXPECT_EQ(values(ended, rank, name), Words{"Double"}) << name;
    EXPECT_EQ(values(ended, rank, "norm.num_batches_tracked"), Words{"Long"});
    EXPECT_EQ(values(ended, rank, "seen"), Words{"12"});
  }
}

TEST(TrainingTest, ManySmallBucketsTrainAsOneRank) {
  const Ended one = run(1, {"train", "24", "2", "1", "0", "0", "300"}, in_float64(4));
  const Ended four = run(4, {"train", "24", "2", "1", "0", "0", "300"}, in_float64(1));
  EXPECT_LT(distance(vector_of(four, 3, "state"), vector_of(one, 0, "state")), 1e-12) << four.err;
}

TEST(TrainingTest, AStopAfterStepsEndsEveryRankCleanly) {
  Bench bench;
  bench.env["SAMERUN_STOP_AFTER_STEPS"] = "3";
  const Ended ended = bench.run({"launch", "-n", "2", "--", kStubPath, "train", "22", "2", "5"});
  ASSERT_EQ(ended.code, 0) << ended.err;
  for (const int rank : {0, 1}) {
    EXPECT_EQ(values(ended, rank, "batches"), Words{"3"});
    EXPECT_EQ(values(ended, rank, "epochs"), Words{"1"});
  }
  const recorder::Reader reader(bench.record());
  const auto run_id = reader.runs().at(0).id;
  for (const auto& rank : reader.ranks(run_id)) {
    EXPECT_EQ(rank.status, "stopped");
    EXPECT_EQ(rank.steps, 3);
  }
  EXPECT_EQ(reader.steps(run_id).size(), 6U);
}

/// What the record says of every micro-batch: who saw which samples with which contents and which random stream.
Words shards_of(const std::string& workers) {
  Bench bench;
  const Ended ended = bench.run({"launch", "-n", "2", "--", kStubPath, "train", "21", "2", "2", workers});
  EXPECT_EQ(ended.code, 0) << ended.err;
  const recorder::Reader reader(bench.record());
  Words lines;
  for (const auto& row : reader.shards(reader.runs().at(0).id)) {
    const Shard& shard = row.shard;
    lines.push_back(shard.purpose + " " + std::to_string(shard.epoch) + " " + std::to_string(shard.global_batch) + " " + std::to_string(shard.step) +
                    " " + std::to_string(shard.rank) + " " + recorder::ids_to_text(shard.ids) + " " + std::to_string(shard.real) + " " +
                    std::to_string(shard.stream_key) + " " + to_hex(shard.digest));
  }
  return lines;
}

TEST(TrainingTest, TheRecordOfTheDataDoesNotDependOnWorkers) {
  const Words plain = shards_of("0");
  EXPECT_EQ(plain.size(), 24U);
  EXPECT_EQ(shards_of("1"), plain);
  EXPECT_EQ(shards_of("3"), plain);
}

}  // namespace
}  // namespace samerun::ranks_test
