// Delays of known length, put into one place: they must be found there and nowhere else. What is compared is what the program measured of its
// own delays with what the record says, so no bound is a time: a slow machine makes both longer.
#include <gtest/gtest.h>

#include <sstream>

#include "harness.h"
#include "paths.h"
#include "samerun/profiler/phases.h"
#include "samerun/profiler/whole_run.h"
#include "samerun/recorder/reader.h"

namespace samerun::profiler {
namespace {

constexpr const char* kDelayMs = "40";

/// A run on two ranks and what its record says.
class Delayed {
 public:
  Delayed(const std::string& where, int rank) {
    ended_ = bench_.run({"launch", "-n", "2", "--threads", "1", "--prefix", "--", kStubPath, where, kDelayMs, std::to_string(rank)});
    if (ended_.code != 0) throw std::runtime_error(ended_.err);
    const recorder::Reader reader(bench_.record());
    for (const auto& row : reader.phases(1)) rows_.push_back(row);
    run_ = *reader.run(1);
    ranks_ = reader.ranks(1);
    run_phases_ = reader.run_phases(1);
  }

  /// Nanoseconds of delay that `rank` measured.
  double injected(int rank) const {
    std::istringstream stream(ended_.out);
    const std::string head = "[" + std::to_string(rank) + "] injected: ";
    for (std::string line; std::getline(stream, line);) {
      if (line.starts_with(head)) return std::stod(line.substr(head.size()));
    }
    return -1;
  }
  /// Over all steps of `rank`.
  double sum(int rank, std::int64_t Phase::*part) const {
    double result = 0;
    for (const auto& row : rows_) result += row.rank == rank ? static_cast<double>(row.phase.*part) : 0;
    return result;
  }
  double run_part(int rank, const std::string& name) const {
    for (const auto& part : parts(rank)) {
      if (part.name == name) return static_cast<double>(part.ns);
    }
    return -1;
  }
  std::vector<RunPhase> parts(int rank) const {
    RunTimes times{run_.started_utc_ns, run_.ended_utc_ns.value(), ranks_.at(static_cast<std::size_t>(rank)).utc_ns, {}};
    for (const auto& row : run_phases_) {
      if (row.rank == rank) times.phases.push_back(row.phase);
    }
    return whole_run(times);
  }
  double wall_ns() const { return static_cast<double>(run_.ended_utc_ns.value() - run_.started_utc_ns); }
  std::size_t rows() const { return rows_.size(); }

 private:
  launch_test::Bench bench_;
  launch_test::Ended ended_;
  std::vector<recorder::PhaseRow> rows_;
  recorder::RunRow run_;
  std::vector<recorder::RankRow> ranks_;
  std::vector<recorder::RunPhaseRow> run_phases_;
};

/// All of the delay lies in `part`, and of the other parts in `elsewhere` none holds even half as much.
void expect_in(const Delayed& run, int rank, double injected, std::int64_t Phase::*part, std::initializer_list<std::int64_t Phase::*> elsewhere) {
  ASSERT_GT(injected, 0);
  EXPECT_GE(run.sum(rank, part), injected);
  for (const auto other : elsewhere) EXPECT_LT(run.sum(rank, other), injected / 2);
}

TEST(DelaysTest, ASlowLoaderIsDataWait) {
  const Delayed run("loader", -1);
  for (const int rank : {0, 1})
    expect_in(run, rank, run.injected(rank), &Phase::data_ns, {&Phase::compute_ns, &Phase::optimizer_ns, &Phase::recording_ns, &Phase::other_ns});
}

TEST(DelaysTest, ASlowRankIsComputeThereAndExposedCommunicationOnItsPeer) {
  const Delayed run("compute", 1);
  expect_in(run, 1, run.injected(1), &Phase::compute_ns, {&Phase::data_ns, &Phase::exposed_ns, &Phase::optimizer_ns, &Phase::other_ns});
  EXPECT_EQ(run.injected(0), 0);
  EXPECT_GT(run.sum(0, &Phase::exposed_ns), run.injected(1) / 2);
  EXPECT_LT(run.sum(0, &Phase::compute_ns), run.injected(1) / 2);
}

TEST(DelaysTest, ASlowReductionIsExposedCommunicationByAsMuchAsItWasLate) {
  const Delayed run("reduction", -1);
  for (const int rank : {0, 1}) {
    // The delay begins where the reduction is done, which may be a moment before the backward pass has computed everything.
    expect_in(run, rank, run.injected(rank) * 0.95, &Phase::exposed_ns,
              {&Phase::data_ns, &Phase::compute_ns, &Phase::optimizer_ns, &Phase::other_ns});
    EXPECT_LT(run.sum(rank, &Phase::exposed_ns), run.injected(rank) * 1.5);
  }
}

TEST(DelaysTest, ASlowReductionOnOneRankHoldsUpTheOtherInItsNextStep) {
  const Delayed run("reduction", 0);
  expect_in(run, 0, run.injected(0) * 0.95, &Phase::exposed_ns, {&Phase::data_ns, &Phase::compute_ns, &Phase::other_ns});
  EXPECT_GT(run.sum(1, &Phase::exposed_ns), run.injected(0) / 2);
}

TEST(DelaysTest, PartsOfEveryStepSumToItAndNoneIsNegative) {
  const Delayed run("none", -1);
  EXPECT_EQ(run.rows(), 2U * 32);
  for (const int rank : {0, 1}) {
    double sum = 0;
    for (const auto& part : kParts) {
      EXPECT_GE(run.sum(rank, part.ns), 0) << part.name;
      sum += run.sum(rank, part.ns);
    }
    EXPECT_DOUBLE_EQ(sum, run.sum(rank, &Phase::wall_ns));
  }
}

TEST(DelaysTest, DelaysBeforeTheTrainingAndInAnEvaluationAreFoundInTheRun) {
  const Delayed set_up("set-up", -1), evaluation("evaluation", 1);
  for (const int rank : {0, 1}) {
    EXPECT_GE(set_up.run_part(rank, "set-up"), set_up.injected(rank));
    EXPECT_LT(evaluation.run_part(rank, "set-up"), evaluation.injected(1));
  }
  EXPECT_GE(evaluation.run_part(1, "evaluation"), evaluation.injected(1));
  EXPECT_LT(evaluation.sum(1, &Phase::other_ns), evaluation.injected(1) / 2);
}

TEST(DelaysTest, PartsOfTheRunAreItsWallTimeOnEachRank) {
  const Delayed run("evaluation", -1);
  for (const int rank : {0, 1}) {
    double sum = 0;
    for (const auto& part : run.parts(rank)) {
      EXPECT_GE(part.ns, 0) << part.name;
      sum += static_cast<double>(part.ns);
    }
    EXPECT_DOUBLE_EQ(sum, run.wall_ns());
    // Steps are the training and the evaluations between them: what the rank does after its last step is in no step.
    EXPECT_LE(run.sum(rank, &Phase::wall_ns), run.run_part(rank, "training") + run.run_part(rank, "evaluation"));
  }
}

}  // namespace
}  // namespace samerun::profiler
