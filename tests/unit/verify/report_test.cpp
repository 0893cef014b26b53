#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fake_pair.h"

namespace samerun::verify {
namespace {

Report crowded_report() {
  Report report;
  report.verdict = Verdict::kDifferent;
  report.summary = "different: " + std::string(500, 'x');
  report.candidate = 2;
  report.reference = 1;
  report.group_id = "pair\x1b[31m";
  for (int i = 0; i < 10; ++i) {
    CheckResult check{"check" + std::to_string(i), Verdict::kDifferent, std::string(200, 's'), {}};
    for (int j = 0; j < 20; ++j) {
      check.evidence.push_back({check.name, Verdict::kDifferent, "update", "a\nname\t", j, 1, std::numeric_limits<double>::quiet_NaN(), 1,
                                "tensor \xc3\xa9\x07 " + std::string(300, 'y')});
    }
    report.checks.push_back(std::move(check));
  }
  report.first = report.checks[0].evidence[0];
  report.not_exercised = {"clipping: never active", std::string(100, 'n')};
  return report;
}

TEST(ReportTest, TextFitsFortyLinesOfEightyColumnsWhateverTheFindingsHold) {
  std::istringstream lines(to_text(crowded_report()));
  std::string line;
  std::size_t count = 0;
  for (; std::getline(lines, line); ++count) {
    EXPECT_LE(line.size(), 80U) << line;
    for (const char c : line) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  }
  EXPECT_LE(count, 40U);
}

TEST(ReportTest, TextLeavesRoomWhereAskedTo) {
  const std::string text = to_text(crowded_report(), false, 34);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 34);
}

TEST(ReportTest, TextCountsWhatItLeavesOutAndKeepsWhatWasNotExercised) {
  const std::string text = to_text(crowded_report());
  EXPECT_NE(text.find("more\n"), std::string::npos) << text;
  EXPECT_NE(text.find("clipping: never active"), std::string::npos) << text;
}

TEST(ReportTest, ColorsAreWrittenOnlyWhenAskedFor) {
  EXPECT_EQ(to_text(crowded_report()).find('\x1b'), std::string::npos);
  EXPECT_NE(to_text(crowded_report(), true).find("\x1b[31mdifferent"), std::string::npos);
}

TEST(ReportTest, JsonKeepsItsKeysAndSaysWhatIsNotFinite) {
  const auto json = nlohmann::json::parse(to_json(crowded_report()));
  for (const char* key : {"verdict", "exit_code", "summary", "group", "candidate", "reference", "coverage", "checks", "not_exercised", "first"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["exit_code"], 1);
  const auto& evidence = json["checks"][0]["evidence"][0];
  EXPECT_TRUE(evidence["value"].is_null());
  EXPECT_EQ(evidence["value_kind"], "nan");
  EXPECT_EQ(evidence["limit"], 1);
  for (const char* key : {"check", "word", "stage", "tensor", "step", "rank", "text"}) EXPECT_TRUE(evidence.contains(key)) << key;
  EXPECT_EQ(json["first"]["stage"], "update");
  EXPECT_EQ(json["first"]["rank"], 1);
}

TEST(ReportTest, JsonOfAPassHasNoFirstDifference) {
  Report report;
  report.verdict = Verdict::kSame;
  const auto json = nlohmann::json::parse(to_json(report));
  EXPECT_TRUE(json["first"].is_null());
  EXPECT_EQ(json["exit_code"], 0);
}

TEST(ReportTest, WordsAndExitCodesAreThoseOfTheCommandLine) {
  EXPECT_EQ(to_string(Verdict::kSame), "same");
  EXPECT_EQ(to_string(Verdict::kInconclusive), "inconclusive");
  EXPECT_EQ(exit_code(Verdict::kSame), 0);
  EXPECT_EQ(exit_code(Verdict::kDifferent), 1);
  EXPECT_EQ(exit_code(Verdict::kInconclusive), 4);
  EXPECT_EQ(exit_code(Verdict::kRefused), 4);
}

}  // namespace
}  // namespace samerun::verify
