#include <cmath>
#include <limits>

#include "fake_pair.h"
#include "samerun/core/metric_math.h"

namespace samerun::verify {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class MetricsTest : public PairTest {
 protected:
  static bool says(const Report& report, const std::string& text) { return all_evidence(report).find(text) != std::string::npos; }
  static std::string summary(const Report& report) { return find_check(report, "metrics")->summary; }
  /// The value of a metric by one rank's own rows.
  static double own(FakeRun& run, const std::string& name, const std::string& rule, int rank, std::int64_t pass) {
    double value = 0;
    run.each_rows(name, pass, [&](SampleValues& rows, int of) {
      if (of == rank) value = metric_of(rule, rows.columns, rows.ids, rows.values).value;
    });
    return value;
  }
  static void all_runs(FakePair& pair, const std::function<void(FakeRun&)>& change) {
    for (FakeRun* run : {&pair.candidate, &pair.reference, &pair.candidate64, &pair.reference64}) change(*run);
    for (auto& run : pair.reruns) change(run);
  }
};

TEST_F(MetricsTest, ACleanPairIsJudgedWhole) {
  const Report report = judge(clean_pair());
  EXPECT_TRUE(same(report));
  EXPECT_TRUE(find_check(report, "metrics")->evidence.empty());
  EXPECT_EQ(summary(report).find("5 metrics, 12 values recomputed from 120 rows, 10 compared in float64, 10 bit for bit"), 0U) << summary(report);
  EXPECT_EQ(summary(report).find("NOT JUDGED"), std::string::npos);
}

TEST_F(MetricsTest, ACleanWholePairIsJudgedInFloat64) {
  const Report report = judge(clean_whole_pair());
  EXPECT_TRUE(same(report));
  EXPECT_NE(summary(report).find("10 compared in float64"), std::string::npos) << summary(report);
}

// ---- every sample has one row

TEST_F(MetricsTest, ARanksRowsThatAreMissingAreFoundThoughTheValueIsRight) {
  for (FakeRun* (*of)(FakePair&) : {+[](FakePair& p) { return &p.candidate; }, +[](FakePair& p) { return &p.candidate64; }}) {
    FakePair pair = clean_pair();
    of(pair)->each_rows("loss", 1, [](SampleValues& rows, int rank) {
      if (rank == 2) rows.ids.clear(), rows.values.clear();
    });
    const Report report = judge(pair);
    EXPECT_TRUE(found(report, "metrics", "metric", "loss", 6));
    EXPECT_TRUE(says(report, "2 samples that rank 2 read have no row"));
  }
}

TEST_F(MetricsTest, PaddingThatCountsIsFound) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    run->each_rows("accuracy", 0, [](SampleValues& rows, int rank) {
      if (rank == 2) rows.ids.push_back(0), rows.values.push_back(1);
    });
    run->each_value("accuracy", [](Metric& row) {
      if (row.pass == 0) row.rows = 11;
    });
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "accuracy", 3));
  EXPECT_TRUE(says(report, "counts 1 sample again (0)"));
}

TEST_F(MetricsTest, RowsOfSamplesThatThePassDidNotReadAreFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_rows("auc", 0, [](SampleValues& rows, int rank) {
    if (rank == 0) rows.ids[0] = 77;
  });
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kDifferent);
  EXPECT_TRUE(says(report, "rows are of samples that the pass did not read (77)")) << all_evidence(report);
}

TEST_F(MetricsTest, RowsThatTheReferenceLostAreFound) {
  FakePair pair = clean_pair();
  pair.reference.each_rows("auc", 0, [](SampleValues& rows, int) { rows.ids.pop_back(), rows.values.pop_back(); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "auc", 3));
  EXPECT_TRUE(says(report, "in the reference"));
}

TEST_F(MetricsTest, SamplesThatBothRunsLeaveOutAreSaidAndNotCondemned) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) {
    run.each_rows("auc", 0, [](SampleValues& rows, int) {
      for (std::size_t i = 0; i < rows.ids.size(); ++i) {
        if (rows.ids[i] != 3) continue;
        rows.ids.erase(rows.ids.begin() + static_cast<std::ptrdiff_t>(i));
        rows.values.erase(rows.values.begin() + static_cast<std::ptrdiff_t>(i));
      }
    });
    run.each_value("auc", [](Metric& row) { row.rows = row.pass == 0 ? 9 : 10; });
  });
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(summary(report).find("left out in both runs: auc"), std::string::npos) << summary(report);
}

// ---- the value is what the rows make it

TEST_F(MetricsTest, TheAverageOfTheRanksF1IsFoundThoughAllElseIsRight) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    run->each_value("f1", [&](Metric& row) {
      double sum = 0;
      for (int rank = 0; rank < kRanks; ++rank) sum += own(*run, "f1", "f1-macro", rank, row.pass);
      row.value = row.numerator = sum / kRanks;
      row.denominator = 1;
    });
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "f1", 3));
  EXPECT_NE(first_evidence(report, "metrics").text.find("it is the average of the ranks' own values"), std::string::npos) << all_evidence(report);
  for (const auto& check : report.checks) EXPECT_TRUE(check.name == "metrics" || check.word == Verdict::kSame) << check.name;
}

TEST_F(MetricsTest, AMeanOfTheRanksMeansIsFound) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    run->each_value("accuracy", [&](Metric& row) {
      double sum = 0;
      for (int rank = 0; rank < kRanks; ++rank) sum += own(*run, "accuracy", "mean", rank, row.pass);
      row.value = sum / kRanks;
    });
  }
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "accuracy", 6));  // in pass 0 the two are equal
}

TEST_F(MetricsTest, RankZerosOwnValueIsFoundInThePrecisionOfTheProgramToo) {
  FakePair pair = clean_pair();
  pair.candidate.each_value("loss", [&](Metric& row) { row.value = own(pair.candidate, "loss", "weighted-mean", 0, row.pass); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "loss", 3));
  EXPECT_NE(first_evidence(report, "metrics").text.find("it is the value of rank 0 alone"), std::string::npos) << all_evidence(report);
}

TEST_F(MetricsTest, ANumeratorOrACountOfRowsThatIsWrongIsFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_value("loss", [](Metric& row) { row.numerator *= 1 + 1e-12; });
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "loss", 3));
  pair = clean_pair();
  pair.candidate.each_value("auc", [](Metric& row) { row.rows = 9; });
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "auc", 3));
}

TEST_F(MetricsTest, AnotherOrderOfTheSumIsRounding) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) { run.each_value("loss", [](Metric& row) { row.value *= 1 + 0x1p-52, row.numerator *= 1 - 0x1p-52; }); });
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(MetricsTest, AFunctionOfTheProgramThatMakesAnotherValueOfEqualRowsIsFound) {
  FakePair pair = clean_pair();
  for (std::int64_t step = 0; step < kSteps; ++step) {
    pair.candidate.each_step(step, [&](Step& row, int) {  // whether or not the states are equal
      change_bits(row.root_after);
      if (step > 0) change_bits(row.root_before);
    });
  }
  pair.candidate.each_value("auc", [](Metric& row) { row.value *= 1 + 0x1p-52; });
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "auc", 3));
}

// ---- the rows and values are the reference's

TEST_F(MetricsTest, ALoggedValueOfOneRankAloneIsFound) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    run->each_value("validation", [&](Metric& row) { row.value = own(*run, "loss", "weighted-mean", 0, row.epoch); });
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "validation", 3));
  EXPECT_TRUE(says(report, "of the float64 run is"));
}

TEST_F(MetricsTest, OneSamplesValueInFloat64IsFoundAndNamed) {
  FakePair pair = clean_pair();
  pair.candidate64.each_rows("auc", 1, [](SampleValues& rows, int rank) {
    if (rank == 1) rows.values[0] *= 1 + 1e-9;
  });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "auc", 6));
  EXPECT_TRUE(says(report, "are not the reference's (samples ")) << all_evidence(report);
}

TEST_F(MetricsTest, OtherBitsWhereTheStatesAreEqualAreFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_rows("auc", 0, [](SampleValues& rows, int rank) {
    if (rank == 1) rows.values[0] = std::nextafter(rows.values[0], 2);
  });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "auc", 3));
  EXPECT_TRUE(says(report, "though the states are equal bit for bit"));
}

// A near tie falls differently in two float32 runs whose states have parted by rounding.
TEST_F(MetricsTest, AFlippedSampleWhereTheStatesDifferIsNotCompared) {
  FakePair pair = clean_pair();
  for (std::int64_t step = 1; step < kSteps; ++step) {
    pair.candidate.each_step(step, [&](Step& row, int) {
      change_bits(row.root_after);
      if (step > 1) change_bits(row.root_before);
    });
  }
  const auto value_of = [](FakeRun& run) {
    std::vector<std::int64_t> ids;
    std::vector<double> values;
    run.each_rows("accuracy", 1, [&](SampleValues& rows, int) {
      ids.insert(ids.end(), rows.ids.begin(), rows.ids.end());
      values.insert(values.end(), rows.values.begin(), rows.values.end());
    });
    return metric_of("mean", 1, ids, values);
  };
  pair.candidate.each_rows("accuracy", 1, [](SampleValues& rows, int rank) {
    if (rank == 1) rows.values[0] = 1 - rows.values[0];
  });
  pair.candidate.each_value("accuracy", [&](Metric& row) {
    if (row.pass == 1) row.value = value_of(pair.candidate).value, row.numerator = value_of(pair.candidate).numerator;
  });
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(MetricsTest, NaNInBothRunsIsNoDifferenceAndIsNotJudged) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) { run.each_value("validation", [](Metric& row) { row.value = kNaN; }); });
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(summary(report).find("NOT JUDGED: validation (not finite in both runs)"), std::string::npos) << summary(report);
  ASSERT_EQ(report.not_exercised.size(), 1U);
  EXPECT_NE(report.not_exercised[0].find("validation"), std::string::npos);
}

TEST_F(MetricsTest, NaNInOneRunIsADifference) {
  FakePair pair = clean_pair();
  pair.candidate64.each_value("validation", [](Metric& row) { row.value = kNaN; });
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "validation", 3));
}

TEST_F(MetricsTest, AClockIsNotJudged) {
  FakePair pair = clean_pair();
  double seconds = 1;
  all_runs(pair, [&](FakeRun& run) { run.each_value("validation", [&](Metric& row) { row.value = seconds *= 1.3; }); });
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(summary(report).find("NOT JUDGED: validation"), std::string::npos) << summary(report);
}

/// What `value` makes of "validation" on each rank, logged inside the training loop.
void log_on_all_ranks(FakeRun& run, const std::function<double(double, int rank)>& value) {
  const auto rows = run.rank(0).metrics;
  run.each_value("validation", [&](Metric& row) {
    row.purpose = "train";
    row.value = value(row.value, 0);
  });
  for (int rank = 1; rank < static_cast<int>(run.ranks.size()); ++rank) {
    for (Metric row : rows) {
      if (row.name != "validation") continue;
      row.purpose = "train";
      row.value = value(row.value, rank);
      run.rank(rank).metrics.push_back(row);
    }
  }
}

TEST_F(MetricsTest, ALossThatEachRankLogsOfItsOwnBatchIsFound) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) { log_on_all_ranks(run, [](double value, int rank) { return value * (1 + 0.001 * rank); }); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "validation", 3));
  EXPECT_TRUE(says(report, "by rank 1: a value of one rank's batches")) << all_evidence(report);
}

/// What one process logs that goes through the ranks' batches one after the other: the step is made before its last one is logged.
void log_rank_by_rank(FakeRun& run, bool backwards) {
  auto& metrics = run.rank(0).metrics;
  std::vector<Metric> logged;
  for (const Metric& row : metrics) {
    for (int i = 0; i < kRanks && row.name == "validation"; ++i) {
      logged.push_back(row);
      logged.back().purpose = "train";
      logged.back().step = row.step - (i < kRanks - 1 ? 1 : 0);
      logged.back().value = row.value * (1 + 0.001 * (backwards ? kRanks - 1 - i : i));
    }
  }
  std::erase_if(metrics, [](const Metric& row) { return row.name == "validation"; });
  metrics.insert(metrics.end(), logged.begin(), logged.end());
}

// The order of a re-execution was once taken for a value that moves by itself.
TEST_F(MetricsTest, ALossOfEachRanksOwnBatchIsFoundThoughReexecutionsGoThroughTheBatchesInAnotherOrder) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) log_on_all_ranks(*run, [](double value, int rank) { return value * (1 + 0.001 * rank); });
  for (FakeRun* run : {&pair.reference, &pair.reference64}) log_rank_by_rank(*run, false);
  for (auto& run : pair.reruns) log_rank_by_rank(run, true);
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "validation", 3));
}

// A program that reduces its loss over ranks and logs it at every step is no fault, though a replay logs another value.
TEST_F(MetricsTest, ALossReducedOverRanksInsideTheLoopIsNoDifference) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) {
    const double shift = run.ranks.size() > 1 ? 0.01 : 0;
    log_on_all_ranks(run, [shift](double value, int) { return value + shift; });
  });
  const Report report = judge(pair);
  EXPECT_TRUE(same(report)) << all_evidence(report);
  EXPECT_NE(summary(report).find("NOT JUDGED: validation (logged inside the training loop"), std::string::npos) << summary(report);
}

TEST_F(MetricsTest, AClockThatEachRankReadsIsNoDifference) {
  FakePair pair = clean_pair();
  double seconds = 1;
  all_runs(pair, [&](FakeRun& run) { log_on_all_ranks(run, [&](double, int) { return seconds *= 1.3; }); });
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(MetricsTest, AMetricOfSomeEpochsIsNoDifference) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) {
    std::erase_if(run.rank(0).metrics, [](const Metric& row) { return row.epoch == 0; });
    for (auto& rank : run.ranks) std::erase_if(rank.sample_values, [](const SampleValues& rows) { return rows.epoch == 0; });
  });
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(MetricsTest, AMetricThatOneRunAloneHasIsFound) {
  FakePair pair = clean_pair();
  std::erase_if(pair.candidate.rank(0).metrics, [](const Metric& row) { return row.name == "f1" && row.pass == 1; });
  for (auto& rank : pair.candidate.ranks)
    std::erase_if(rank.sample_values, [](const SampleValues& rows) { return rows.name == "f1" && rows.pass == 1; });
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "f1", 6));
}

TEST_F(MetricsTest, RowsWithoutAValueAreFound) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) { std::erase_if(run.rank(0).metrics, [](const Metric& row) { return row.name == "f1" && row.pass == 1; }); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "metrics", "metric", "f1", 6));
  EXPECT_TRUE(says(report, "has rows of samples and no value"));
}

TEST_F(MetricsTest, WhatOneRunAloneLogsIsSaidAndNotCondemned) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) std::erase_if(run->rank(0).metrics, [](const Metric& row) { return row.rule == "logged"; });
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(summary(report).find("NOT JUDGED: validation (logged by the reference only)"), std::string::npos) << summary(report);
}

TEST_F(MetricsTest, WhatIsLoggedForEachBatchIsNotComparedWithAReplay) {
  FakePair pair = clean_pair();
  std::vector<FakeRun*> replays = {&pair.reference, &pair.reference64};
  for (auto& rerun : pair.reruns) replays.push_back(&rerun);
  for (FakeRun* run : replays) {
    auto& rows = run->rank(0).metrics;
    const auto before = rows;
    for (Metric row : before) {
      if (row.name != "validation") continue;
      row.value *= 2;
      rows.push_back(row);
    }
  }
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(summary(report).find("NOT JUDGED: validation"), std::string::npos) << summary(report);
}

TEST_F(MetricsTest, ValuesRoundedToFloat32InTheFloat64RunsMayDifferInTheirLastBit) {
  FakePair pair = clean_pair();
  all_runs(pair, [](FakeRun& run) { run.each_value("validation", [](Metric& row) { row.value = static_cast<float>(row.value); }); });
  pair.candidate64.each_value("validation", [](Metric& row) { row.value = std::nextafter(static_cast<float>(row.value), 9.0F); });
  EXPECT_TRUE(same(judge(pair)));
  pair.candidate64.each_value("validation", [](Metric& row) { row.value = static_cast<float>(row.value * 1.001); });
  EXPECT_TRUE(found(judge(pair), "metrics", "metric", "validation", 3));
}

TEST_F(MetricsTest, WithoutFloat64RunsALoggedValueWithOtherBitsIsNotJudged) {
  FakePair pair = clean_pair();
  pair.shadows = false;
  pair.candidate.each_value("validation", [](Metric& row) { row.value *= 1.5; });
  EXPECT_NE(summary(judge(pair)).find("NOT JUDGED: validation"), std::string::npos);
}

TEST_F(MetricsTest, AFaultOfTheStepBeforeComesFirst) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    run->each_value("f1", [](Metric& row) { row.value = 0.25; });
    run->each_step(3, [](Step& row, int) { row.loss_denominator += 1; });
  }
  const Report report = judge(pair);
  EXPECT_EQ(report.first->check, "settings") << all_evidence(report);
}

}  // namespace
}  // namespace samerun::verify
