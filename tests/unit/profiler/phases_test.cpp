#include "samerun/profiler/phases.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "samerun/core/launch_contract.h"
#include "samerun/profiler/attach.h"

namespace samerun::profiler {
namespace {

class Keeper final : public RunObserver {
 public:
  std::string name() const override { return "keeper"; }
  void on_phase(const Phase& phase) override { phases.push_back(phase); }
  void on_run_phase(const RunPhase& phase) override { parts.push_back(phase); }
  void on_run_end(const RunEnd&) override { parts_at_end = parts.size(); }

  std::vector<Phase> phases;
  std::vector<RunPhase> parts;
  std::size_t parts_at_end = 0;
};

/// A rank with a clock of its own, which only moves when told.
class Rank {
 public:
  Rank() {
    list_.add(std::make_shared<PhaseTimer>(list_, [this] { return now_ns; }));
    list_.add(keeper_);
    RankStart start;
    start.monotonic_ns = now_ns;
    list_.on_rank_start(start);
  }

  /// The next `ns` go to `kind`.
  void spend(SpanKind kind, std::int64_t ns) {
    list_.on_span({kind, now_ns, now_ns + ns});
    now_ns += ns;
  }
  void idle(std::int64_t ns) { now_ns += ns; }
  /// As the runtime does it: on_step() is called within a span of recording, `before_ns` after its begin and `after_ns` before its end.
  void step(std::int64_t number, std::int64_t before_ns, std::int64_t after_ns) {
    Step step;
    step.step = number;
    now_ns += before_ns;
    list_.on_step(step);
    now_ns += after_ns;
    list_.on_span({SpanKind::kRecording, now_ns - after_ns - before_ns, now_ns});
  }
  void end() { list_.on_run_end({}); }

  const std::vector<Phase>& phases() const { return keeper_->phases; }
  const Keeper& keeper() const { return *keeper_; }
  std::int64_t part(const std::string& name) const {
    for (const auto& phase : keeper_->parts) {
      if (phase.name == name) return phase.ns;
    }
    return -1;
  }

  std::int64_t now_ns = 1000;

 private:
  ObserverList list_;
  std::shared_ptr<Keeper> keeper_ = std::make_shared<Keeper>();
};

std::int64_t sum_of_parts(const Phase& phase) {
  std::int64_t sum = 0;
  for (const auto& part : kParts) sum += phase.*part.ns;
  return sum;
}

TEST(PhaseTimerTest, AStepRunsFromTheFirstWaitForABatchAndHoldsTheSumsOfItsSpans) {
  Rank rank;
  rank.idle(500);  // before the first batch: no step's
  for (int micro = 0; micro < 2; ++micro) {
    rank.spend(SpanKind::kDataWait, 10);
    rank.spend(SpanKind::kCompute, 100);
    rank.spend(SpanKind::kExposed, 30);
  }
  rank.spend(SpanKind::kOptimizer, 20);
  rank.idle(7);
  rank.step(0, 5, 0);
  ASSERT_EQ(rank.phases().size(), 1U);
  const Phase& phase = rank.phases()[0];
  EXPECT_EQ(phase.data_ns, 20);
  EXPECT_EQ(phase.compute_ns, 200);
  EXPECT_EQ(phase.exposed_ns, 60);
  EXPECT_EQ(phase.optimizer_ns, 20);
  EXPECT_EQ(phase.recording_ns, 5);
  EXPECT_EQ(phase.other_ns, 7);
  EXPECT_EQ(phase.wall_ns, 312);
}

TEST(PhaseTimerTest, ASpanThatReachesOverAStepsEndIsCutThere) {
  Rank rank;
  rank.spend(SpanKind::kDataWait, 10);
  rank.step(0, 40, 60);
  rank.spend(SpanKind::kCheckpoint, 7);
  rank.step(1, 1, 2);
  rank.end();
  ASSERT_EQ(rank.phases().size(), 2U);
  EXPECT_EQ(rank.phases()[0].recording_ns, 40);
  EXPECT_EQ(rank.phases()[0].wall_ns, 50);
  EXPECT_EQ(rank.phases()[1].recording_ns, 61);
  EXPECT_EQ(rank.phases()[1].checkpoint_ns, 7);
  EXPECT_EQ(rank.phases()[1].wall_ns, 68);
}

TEST(PhaseTimerTest, ARowIsToldOnceNoSpanCanReachIntoItAndAtTheRunsEnd) {
  Rank rank;
  rank.spend(SpanKind::kDataWait, 10);
  rank.step(3, 1, 1);
  EXPECT_EQ(rank.phases().size(), 1U);
  rank.spend(SpanKind::kCompute, 10);
  rank.step(4, 0, 0);
  rank.end();
  ASSERT_EQ(rank.phases().size(), 2U);
  EXPECT_EQ(rank.phases()[0].step, 3);
  EXPECT_EQ(rank.phases()[1].step, 4);
}

TEST(PhaseTimerTest, PartsSumToTheWallTimeAndNoneIsNegativeWhateverTheSpansAre) {
  Rank rank;
  std::mt19937 random(7);
  rank.spend(SpanKind::kDataWait, 1);
  for (int step = 0; step < 200; ++step) {
    for (int i = random() % 6; i >= 0; --i) {
      rank.idle(random() % 3);
      rank.spend(static_cast<SpanKind>(random() % 7), random() % 100);
    }
    rank.step(step, random() % 50, random() % 50);
  }
  rank.end();
  ASSERT_EQ(rank.phases().size(), 200U);
  for (const auto& phase : rank.phases()) {
    EXPECT_EQ(sum_of_parts(phase), phase.wall_ns);
    for (const auto& part : kParts) EXPECT_GE(phase.*part.ns, 0) << part.name;
  }
}

TEST(PhaseTimerTest, TheRunsPartsCoverTheRankFromStartToEnd) {
  Rank rank;
  const auto start_ns = rank.now_ns;
  rank.idle(400);
  rank.spend(SpanKind::kCheckpoint, 11);  // loaded before the training began
  rank.spend(SpanKind::kEvaluation, 13);
  rank.idle(100);
  rank.spend(SpanKind::kDataWait, 10);
  rank.spend(SpanKind::kCompute, 1000);
  rank.step(0, 5, 5);
  rank.spend(SpanKind::kEvaluation, 200);
  rank.spend(SpanKind::kCheckpoint, 50);
  rank.idle(9);
  rank.end();
  EXPECT_EQ(rank.part("set-up"), 500);
  EXPECT_EQ(rank.part("training"), 10 + 1000 + 10 + 9);
  EXPECT_EQ(rank.part("evaluation"), 213);
  EXPECT_EQ(rank.part("checkpoints"), 61);
  std::int64_t sum = 0;
  for (const auto& phase : rank.keeper().parts) sum += phase.ns;
  EXPECT_EQ(sum, rank.now_ns - start_ns);
}

TEST(PhaseTimerTest, ARunWithoutTrainingIsSetUpAndEvaluation) {
  Rank rank;
  rank.idle(40);
  rank.spend(SpanKind::kEvaluation, 60);
  rank.end();
  EXPECT_TRUE(rank.phases().empty());
  EXPECT_EQ(rank.part("set-up"), 40);
  EXPECT_EQ(rank.part("training"), 0);
  EXPECT_EQ(rank.part("evaluation"), 60);
}

TEST(PhaseTimerTest, AnObserverBehindItHearsTheRunsPartsBeforeTheEnd) {
  Rank rank;
  rank.spend(SpanKind::kDataWait, 10);
  rank.end();
  EXPECT_EQ(rank.keeper().parts_at_end, 4U);
}

TEST(PhaseTimerTest, IsAttachedWhereARecordIsAskedFor) {
  ObserverList list;
  ::unsetenv(env::kStaging);
  attach_from_env(list);
  EXPECT_TRUE(list.empty());
  ::setenv(env::kStaging, "somewhere", 1);
  attach_from_env(list);
  ::unsetenv(env::kStaging);
  EXPECT_FALSE(list.empty());
}

}  // namespace
}  // namespace samerun::profiler
