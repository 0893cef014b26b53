#include "samerun/verify/report_html.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "curves.h"
#include "fake_pair.h"

namespace samerun::verify {
namespace {

std::size_t count(const std::string& text, const std::string& piece) {
  std::size_t found = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++found;
  return found;
}

nlohmann::json data_of(const std::string& html) {
  const std::string head = "id=\"samerun-data\">";
  const std::size_t begin = html.find(head) + head.size();
  return nlohmann::json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

const TensorCurve* find_curve(const Report& report, const std::string& arm, const std::string& tensor) {
  const auto found =
      std::find_if(report.curves.begin(), report.curves.end(), [&](const TensorCurve& c) { return c.arm == arm && c.tensor == tensor; });
  return found == report.curves.end() ? nullptr : &*found;
}

TEST(CurvesTest, ALongRunIsThinnedAndKeepsItsWorstStep) {
  Curves curves;
  for (std::int64_t step = 0; step < 100'000; ++step) curves.see({"w", "reduced gradient", "float64"}, step, step == 77'777 ? 5 : 1, 10, 1);
  Report report;
  curves.move_to(report);
  ASSERT_EQ(report.curves.size(), 1U);
  const TensorCurve& curve = report.curves[0];
  EXPECT_LE(curve.steps.size(), 200U);
  EXPECT_GE(curve.steps.size(), 100U);
  EXPECT_EQ(curve.steps[worst_index(curve)], 77'777);
  EXPECT_TRUE(std::is_sorted(curve.steps.begin(), curve.steps.end()));
  EXPECT_DOUBLE_EQ(worst_share(curve), 0.5);
}

TEST(CurvesTest, OfManyTensorsThoseNearestTheirLimitsAreKept) {
  Curves curves;
  for (int i = 0; i < 100; ++i) curves.see({"w" + std::to_string(i), "update", "locked"}, 0, i, 1000, 1);
  Report report;
  curves.move_to(report);
  ASSERT_EQ(report.curves.size(), 64U);
  EXPECT_EQ(report.curves_left_out, 36);
  EXPECT_EQ(report.curves.front().tensor, "w99");
  EXPECT_EQ(find_curve(report, "locked", "w35"), nullptr);
}

TEST(CurvesTest, AnyDistanceIsFartherThanALimitOfZero) {
  TensorCurve curve{"w", "s", "locked", {0, 1}, {0, 1e-30}, {0, 0}, {1, 1}};
  EXPECT_EQ(worst_index(curve), 1U);
  EXPECT_GT(worst_share(curve), 1);
}

class ReportHtmlTest : public PairTest {
 protected:
  std::string page(const Report& report) const { return to_html(report, gather_report_facts(recorder::Reader(folder_ + "/record"), report)); }
};

TEST_F(ReportHtmlTest, EveryComparedGradientHasADistanceInsideItsBand) {
  const Report report = judge(clean_pair());
  for (const char* tensor : {kBody, kHead, kBias}) {
    const TensorCurve* curve = find_curve(report, "float64", tensor);
    ASSERT_NE(curve, nullptr) << tensor;
    EXPECT_EQ(curve->stage, "reduced gradient");
    EXPECT_EQ(curve->steps.size(), static_cast<std::size_t>(kSteps));
    EXPECT_LE(worst_share(*curve), 1);
    EXPECT_GT(curve->limit[0], 0);
    EXPECT_GT(curve->norm[0], 0);
  }
}

TEST_F(ReportHtmlTest, AGradientThatDiffersStandsAboveItsBandAtItsStep) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) run->each_tensor(stage::kRaw, 2, kHead, [](TensorTrace& row, int) { scale_row(row, 2); });
  const Report report = judge(pair);
  const TensorCurve* curve = find_curve(report, "float64", kHead);
  ASSERT_NE(curve, nullptr);
  EXPECT_EQ(curve->steps[worst_index(*curve)], 2);
  EXPECT_GT(worst_share(*curve), 1);
  const std::string html = page(report);
  EXPECT_NE(html.find("<h1>different</h1>"), std::string::npos);
  EXPECT_NE(html.find("times its limit at step 2"), std::string::npos);
  EXPECT_NE(html.find("id=\"findings\""), std::string::npos);
}

TEST_F(ReportHtmlTest, ThePageHoldsVerdictChecksSettingsAndRunsAndLoadsNothing) {
  const Report report = judge(clean_pair());
  const std::string html = page(report);
  EXPECT_NE(html.find("<h1>same</h1>"), std::string::npos);
  for (const CheckResult& check : report.checks) EXPECT_NE(html.find("<th scope=\"row\">" + check.name + "</th>"), std::string::npos) << check.name;
  for (const char* id : {"checks", "evidence", "loss", "settings", "environment", "not-exercised"}) {
    EXPECT_NE(html.find("<section id=\"" + std::string(id) + "\""), std::string::npos) << id;
  }
  EXPECT_NE(html.find("<code>replay_world</code>"), std::string::npos);
  EXPECT_EQ(html.find("<code>accumulation_steps</code>"), std::string::npos) << "a setting that is equal";
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  for (const char* loader : {"src=", "<link", "@import", "url("}) {
    EXPECT_EQ(html.substr(0, html.find("id=\"samerun-data\"")).find(loader), std::string::npos) << loader;
  }
  EXPECT_NE(html.find("The MIT License"), std::string::npos);
}

TEST_F(ReportHtmlTest, ThePlotsNumbersAreThoseOfTheReport) {
  const Report report = judge(clean_pair());
  const auto data = data_of(page(report));
  ASSERT_EQ(data["curves"].size(), report.curves.size());
  for (std::size_t i = 0; i < report.curves.size(); ++i) {
    const TensorCurve& curve = report.curves[i];
    EXPECT_EQ(data["curves"][i]["steps"].get<std::vector<std::int64_t>>(), curve.steps);
    EXPECT_NEAR(data["curves"][i]["limit"][0].get<double>() * curve.norm[0], curve.limit[0], 1e-3 * curve.limit[0]);
  }
  ASSERT_EQ(data["losses"].size(), 2U);
  EXPECT_EQ(data["losses"][0]["run"], "candidate");
  EXPECT_EQ(data["losses"][0]["steps"].size(), static_cast<std::size_t>(kSteps));
}

TEST_F(ReportHtmlTest, TheSameRecordGivesTheSameBytes) {
  const Report report = judge(clean_pair());
  EXPECT_EQ(page(report), page(report));
}

TEST_F(ReportHtmlTest, WhatARunLeftOutOfTheRecordIsSaid) {
  FakePair pair = clean_pair();
  pair.reference.says_bye = false;
  const Report report = judge(pair);
  const ReportFacts facts = gather_report_facts(recorder::Reader(folder_ + "/record"), report);
  ASSERT_FALSE(facts.missing.empty());
  EXPECT_NE(facts.missing[0].find("(reference, 1 rank)"), std::string::npos) << facts.missing[0];
  EXPECT_NE(page(report).find("What the record lacks"), std::string::npos);
}

TEST_F(ReportHtmlTest, ARunThatIsNotThereIsSaidAndThePageIsWhole) {
  judge(clean_pair());
  Report report;
  report.verdict = Verdict::kRefused;
  report.candidate = 1;
  report.reference = 0;
  const std::string html = page(report);
  EXPECT_NE(html.find("no run of the reference was recorded"), std::string::npos);
  EXPECT_TRUE(html.ends_with("</html>\n"));
}

TEST(ReportHtmlTextTest, NamesNeverBecomeMarkup) {
  const std::string attack = "</script><script>x()</script><!--\"'&\x01";
  Report report;
  report.summary = report.group_id = attack;
  report.checks.push_back({attack, Verdict::kSame, attack, {{attack, Verdict::kDifferent, attack, attack, 1, 1, 1, 1, attack}}});
  report.curves.push_back({attack, attack, "float64", {0, 1}, {1, 2}, {3, 3}, {1, 1}});
  report.not_exercised = {attack};
  Report plain;
  plain.curves.push_back({"w", "s", "float64", {0, 1}, {1, 2}, {3, 3}, {1, 1}});
  const std::string html = to_html(report, {});
  EXPECT_EQ(html.find("<script>x"), std::string::npos);
  EXPECT_EQ(count(html, "<script"), count(to_html(plain, {}), "<script"));
  EXPECT_EQ(count(html, "<!--"), count(to_html(plain, {}), "<!--"));
  EXPECT_EQ(count(html, "</script>"), count(to_html(plain, {}), "</script>"));
  EXPECT_EQ(html.find('\x01'), std::string::npos);
  EXPECT_EQ(data_of(html)["curves"][0]["group"], "float64/" + attack);
}

TEST(ReportHtmlTextTest, WhatIsNotFiniteLeavesTheDataValid) {
  Report report;
  report.curves.push_back({"w", "s", "float64", {0, 1}, {std::nan(""), HUGE_VAL}, {1, HUGE_VAL}, {1, 1}});
  ReportFacts facts;
  facts.losses = {{"candidate", {0}, {std::nan("")}}};
  const auto data = data_of(to_html(report, facts));
  EXPECT_TRUE(data["curves"][0]["value"][0].is_null());
  EXPECT_TRUE(data["losses"][0]["loss"][0].is_null());
}

TEST(ReportHtmlTextTest, PhasesStandInATableWithTheirSharesOfTheStep) {
  ReportFacts facts;
  facts.phases = {{"candidate", "4 steps of 2 ranks", 10, {{"compute", 7.5}, {"other", 2.5}}},
                  {"reference", "4 steps of 1 rank", 20, {{"compute", 20}}}};
  const std::string html = to_html({}, facts);
  EXPECT_NE(html.find("7.5 (75 %)"), std::string::npos);
  EXPECT_NE(html.find("candidate, 4 steps of 2 ranks; reference, 4 steps of 1 rank."), std::string::npos);
  EXPECT_NE(html.find("whole step"), std::string::npos);
  EXPECT_EQ(to_html({}, {}).find("Where the time went"), std::string::npos);
}

}  // namespace
}  // namespace samerun::verify
