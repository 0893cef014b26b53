#include "span.h"

#include <gtest/gtest.h>

#include <memory>

namespace samerun::detail {
namespace {

class Keeper final : public RunObserver {
 public:
  std::string name() const override { return "keeper"; }
  void on_span(const Span& span) override { spans.push_back(span); }
  std::vector<Span> spans;
};

class SpanClockTest : public testing::Test {
 protected:
  SpanClockTest() { list_.add(keeper_); }

  /// The kinds told so far, one after another, equal neighbours once: a stretch shorter than the clock's tick is not told.
  std::vector<SpanKind> kinds() const {
    std::vector<SpanKind> result;
    for (const auto& span : keeper_->spans) {
      if (result.empty() || result.back() != span.kind) result.push_back(span.kind);
    }
    return result;
  }
  /// Until the clock has moved.
  static void work() {
    volatile int counter = 0;
    for (int i = 0; i < 1000; ++i) counter = counter + 1;
  }
  void TearDown() override {
    std::int64_t last_ns = 0;
    for (const auto& span : keeper_->spans) {
      EXPECT_GE(span.begin_ns, last_ns);
      EXPECT_GT(span.end_ns, span.begin_ns);
      last_ns = span.end_ns;
    }
  }

  ObserverList list_;
  std::shared_ptr<Keeper> keeper_ = std::make_shared<Keeper>();
  SpanClock clock_{list_};
};

using enum SpanKind;

TEST_F(SpanClockTest, AnInnerStretchInterruptsTheOuterOne) {
  {
    const SpanTimer outer(clock_, kOptimizer);
    work();
    {
      const SpanTimer inner(clock_, kRecording);
      work();
    }
    work();
  }
  EXPECT_EQ(kinds(), (std::vector<SpanKind>{kOptimizer, kRecording, kOptimizer}));
}

TEST_F(SpanClockTest, ComputeEndsWithItsBackwardPassAndWhatFollowsIsNobodys) {
  clock_.open_compute();
  work();
  clock_.open(kExposed);
  work();
  clock_.close();
  clock_.close_compute();
  const auto told = keeper_->spans.size();
  work();
  clock_.close_compute();
  EXPECT_EQ(keeper_->spans.size(), told);
  ASSERT_GE(told, 2U);
  EXPECT_EQ(keeper_->spans[0].kind, kCompute);
  EXPECT_EQ(keeper_->spans[1].kind, kExposed);
}

TEST_F(SpanClockTest, ABatchWithoutBackwardEndsWithTheNextOne) {
  clock_.open_compute();
  work();
  clock_.open_compute();
  work();
  clock_.close_compute();
  EXPECT_EQ(kinds(), std::vector<SpanKind>{kCompute});
  clock_.close();
  EXPECT_EQ(keeper_->spans.size(), 2U);
}

TEST_F(SpanClockTest, AnEvaluationWithinATrainingBatchInterruptsItsCompute) {
  clock_.open_compute();
  work();
  clock_.open_evaluation();
  EXPECT_EQ(clock_.collective(), kEvaluation);
  work();
  clock_.close_evaluation();
  EXPECT_EQ(clock_.collective(), kExposed);
  work();
  clock_.close_compute();
  EXPECT_EQ(kinds(), (std::vector<SpanKind>{kCompute, kEvaluation, kCompute}));
}

TEST_F(SpanClockTest, AnEvaluationThatWasLeftEarlyEndsWithTheNextTrainingBatch) {
  clock_.open_evaluation();
  clock_.open_evaluation();
  work();
  clock_.open_compute();
  work();
  clock_.close_compute();
  EXPECT_EQ(kinds(), (std::vector<SpanKind>{kEvaluation, kCompute}));
  clock_.close_evaluation();
  EXPECT_EQ(keeper_->spans.size(), 2U);
}

TEST(SpanClockWithoutObserversTest, TellsNothingAndStaysInOrder) {
  ObserverList nobody;
  SpanClock clock(nobody);
  clock.open_compute();
  { const SpanTimer timer(clock, kRecording); }
  clock.close_compute();
  clock.close();
  EXPECT_EQ(clock.collective(), kExposed);
}

}  // namespace
}  // namespace samerun::detail
