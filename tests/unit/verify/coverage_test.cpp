#include "fake_pair.h"
#include "samerun/core/error.h"

namespace samerun::verify {
namespace {

using RefusalTest = PairTest;

TEST_F(RefusalTest, TheSameRunTwiceIsRefused) {
  const auto id = write_run(clean_pair().candidate, "g");
  const recorder::Reader reader(folder_ + "/record");
  const Report report = verify(reader, id, id);
  EXPECT_EQ(report.verdict, Verdict::kRefused);
  EXPECT_EQ(exit_code(report.verdict), 4);
  EXPECT_EQ(report.checks.size(), 1U);
}

TEST_F(RefusalTest, ARunThatDoesNotExistIsAnError) {
  const auto id = write_run(clean_pair().candidate, "g");
  const recorder::Reader reader(folder_ + "/record");
  try {
    verify(reader, id, 99);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConfig);
    EXPECT_NE(std::string(error.what()).find("99"), std::string::npos);
  }
}

TEST_F(RefusalTest, AnotherProgramOrOtherArgumentsAreRefusedByName) {
  FakePair pair = clean_pair();
  pair.reference.argv = {"/bin/false", "--epochs", "3"};
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kRefused);
  EXPECT_NE(all_evidence(report).find("--epochs 3"), std::string::npos);
  EXPECT_NE(all_evidence(report).find("program files differ"), std::string::npos);
}

TEST_F(RefusalTest, OtherDataOrAnotherRequestOutsideAPairIsRefused) {
  const std::pair<const char*, const char*> requests[] = {{"train.dataset", "other-data"}, {"train.effective_batch", "48"}};
  for (const auto& [key, value] : requests) {
    FakePair pair = clean_pair();
    pair.reference_group = "elsewhere";
    pair.reference.set(key, value);
    const Report report = judge(pair);
    EXPECT_EQ(report.verdict, Verdict::kRefused) << key << all_evidence(report);
    EXPECT_NE(all_evidence(report).find(value), std::string::npos);
  }
}

TEST_F(RefusalTest, OtherContentsOutsideAPairAreRefused) {
  FakePair pair = clean_pair();
  pair.reference_group = "elsewhere";
  change_bits(pair.reference.rank(0).datasets[0].digest);
  EXPECT_EQ(judge(pair).verdict, Verdict::kRefused);
}

TEST_F(RefusalTest, FewerStepsOutsideAPairAreRefusedAndInsideItADifference) {
  FakePair pair = clean_pair();
  for (auto& rank : pair.candidate.ranks) rank.steps.pop_back();
  EXPECT_EQ(judge(pair).verdict, Verdict::kDifferent);
  pair.reference_group = "elsewhere";
  EXPECT_EQ(judge(pair).verdict, Verdict::kRefused);
}

TEST_F(RefusalTest, NoStepIsRefused) {
  FakePair pair = clean_pair();
  for (auto& rank : pair.candidate.ranks) rank.steps.clear();
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kRefused);
  EXPECT_NE(all_evidence(report).find("train with what accelerator.prepare"), std::string::npos) << all_evidence(report);
}

TEST_F(RefusalTest, ZeroGradientsInBothRunsAreRefusedAndInOneADifference) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    for (std::int64_t step = 0; step < kSteps; ++step) run->each_tensor(stage::kRaw, step, "", [](TensorTrace& row, int) { scale_row(row, 0); });
  }
  EXPECT_EQ(judge(pair).verdict, Verdict::kDifferent);
  for (std::int64_t step = 0; step < kSteps; ++step)
    pair.reference.each_tensor(stage::kRaw, step, "", [](TensorTrace& row, int) { scale_row(row, 0); });
  EXPECT_EQ(judge(pair).verdict, Verdict::kRefused);
}

TEST_F(RefusalTest, ParametersThatNeverChangedInEitherRunAreRefused) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference}) {
    for (std::int64_t step = 0; step < kSteps; ++step) run->each_tensor(stage::kUpdate, step, "", [](TensorTrace& row, int) { row.norm = 0; });
  }
  EXPECT_EQ(judge(pair).verdict, Verdict::kRefused);
}

TEST_F(RefusalTest, WholeBatchesOfAModelThatDrawsAtRandomAreRefused) {
  FakePair pair = clean_whole_pair();
  pair.reference.rank(0).events.push_back({"warning", "whole-random", "the model draws random numbers", 0});
  EXPECT_EQ(judge(pair).verdict, Verdict::kRefused);
}

using CoverageTest = PairTest;

TEST_F(CoverageTest, RunsThatWereNotPlannedAsAPairAreInconclusive) {
  FakePair pair = clean_pair();
  pair.reference_group = "elsewhere";
  pair.shadows = false;
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
}

// A record without settings has none that differ: it was judged `same`.
TEST_F(CoverageTest, ARecordThatLacksARanksSettingsIsInconclusive) {
  FakePair pair = clean_pair();
  pair.candidate.rank(1).settings.clear();
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_NE(all_evidence(report).find("holds no settings of rank 1"), std::string::npos) << all_evidence(report);
}

TEST_F(CoverageTest, ADifferenceStandsThoughTheRecordHasHoles) {
  FakePair pair = clean_pair();
  pair.candidate.says_bye = false;
  pair.candidate.each_step(1, [](Step& row, int) { row.loss_denominator += 1; });
  EXPECT_TRUE(found(judge(pair), "settings", "weights", "", 1));
}

TEST_F(CoverageTest, AnIncompleteRecordIsInconclusive) {
  FakePair pair = clean_pair();
  pair.candidate.says_bye = false;
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_EQ(find_check(report, "coverage")->word, Verdict::kInconclusive);
}

TEST_F(CoverageTest, AClipThatWasNeverActiveIsSaidAndRefusedWhenStrict) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference}) {
    for (std::int64_t step = 0; step < kSteps; ++step) {
      run->each_step(step, [](Step& row, int) { row.clip_max = 1000, row.clip_factor = 1, row.root_clipped = row.root_raw; });
      run->each_tensor(stage::kClipped, step, "", [](TensorTrace& row, int) { row.sketch.clear(); });
    }
  }
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  ASSERT_EQ(report.not_exercised.size(), 1U);
  EXPECT_NE(report.not_exercised.front().find("clipping: never active"), std::string::npos);
  const Report strict = judge(pair, {.strict = true});
  EXPECT_EQ(strict.verdict, Verdict::kRefused);
  EXPECT_NE(strict.summary.find("clipping"), std::string::npos);
}

TEST_F(CoverageTest, ADifferenceIsNotRefusedByStrict) {
  FakePair pair = clean_pair();
  for (auto& rank : pair.candidate.ranks) {
    std::erase_if(rank.shards, [](const Shard& row) { return row.pass == 1; });
  }
  EXPECT_EQ(judge(pair, {.strict = true}).verdict, Verdict::kDifferent);
}

}  // namespace
}  // namespace samerun::verify
