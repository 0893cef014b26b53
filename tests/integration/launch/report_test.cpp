// report.html as commands write it. The stub leaves no rows, so its pairs are never `same`.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "harness.h"
#include "paths.h"
#include "samerun/recorder/reader.h"

namespace samerun::launch_test {
namespace {

namespace fs = std::filesystem;

const Words kPair{"pair", "-n", "2", "--", kStubPath, "hello", "bye"};
constexpr int kNoVerdict = 4;

std::string group_of(const Bench& bench) {
  return recorder::Reader(bench.record()).runs().at(0).group_id;
}

std::string page_of(const Bench& bench) {
  return bench.record() + "/reports/" + group_of(bench) + ".html";
}

bool whole_page(const std::string& file) {
  const std::string html = read_file(file);
  return html.starts_with("<!doctype html>") && html.ends_with("</html>\n");
}

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(ReportTest, APairLeavesItsReportAndSaysWhere) {
  Bench bench;
  const Ended ended = bench.run(kPair);
  EXPECT_EQ(ended.code, kNoVerdict) << ended.err;
  EXPECT_TRUE(whole_page(page_of(bench)));
  EXPECT_NE(ended.err.find("samerun: report "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("reports/" + group_of(bench) + ".html\n"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.out.find("html"), std::string::npos) << ended.out;
}

TEST(ReportTest, QuietPairsWriteItWithoutAWordAndNoReportWritesNone) {
  Bench quiet, none;
  Words words = kPair;
  words.insert(words.begin() + 1, "-q");
  EXPECT_EQ(quiet.run(words).err, "");
  EXPECT_TRUE(whole_page(page_of(quiet)));
  words[1] = "--no-report";
  EXPECT_EQ(none.run(words).code, kNoVerdict);
  EXPECT_FALSE(fs::exists(none.record() + "/reports"));
}

TEST(ReportTest, TheRecordAloneIsEnoughToWriteItAgain) {
  Bench bench;
  bench.run(kPair);
  fs::copy(bench.record(), bench.file("elsewhere"), fs::copy_options::recursive);
  const std::string group = group_of(bench);
  const Ended pair = bench.run({"report", group, "--record-dir", bench.file("elsewhere"), "-o", bench.file("a.html")});
  EXPECT_EQ(pair.code, kNoVerdict) << pair.err;
  EXPECT_EQ(pair.out, bench.file("a.html") + "\n");
  EXPECT_TRUE(whole_page(bench.file("a.html")));
  const Ended runs = bench.run({"report", "2", "1", "-o", bench.file("b.html")});
  EXPECT_EQ(runs.code, kNoVerdict) << runs.err;
  EXPECT_NE(read_file(bench.file("b.html")).find("run 1, 2 ranks"), std::string::npos) << "the candidate comes first, in whatever order";
  EXPECT_EQ(recorder::Reader(bench.record()).verdicts(group).size(), 1U) << "a report is no new verdict";
}

TEST(ReportTest, AHalfPairHasAReportThatSaysWhatIsMissing) {
  Bench bench;
  const Ended failed = bench.run({"pair", "-n", "2", "--", kStubPath, "hello", "exit=7"});
  EXPECT_EQ(failed.code, 3) << failed.err;
  const Ended ended = bench.run({"report", group_of(bench)});
  EXPECT_EQ(ended.code, kNoVerdict) << ended.err;
  const std::string html = read_file(page_of(bench));
  EXPECT_TRUE(whole_page(page_of(bench)));
  EXPECT_NE(html.find("no run of the reference was recorded"), std::string::npos);
  EXPECT_NE(html.find("run 1 (candidate, 2 ranks) is failed"), std::string::npos);
  EXPECT_NE(html.find("<h1>refused</h1>"), std::string::npos);
}

TEST(ReportTest, APlaceThatCannotBeWrittenIsNamedInOneLineAndCostsNoVerdict) {
  Bench bench;
  bench.run({"launch", "--", kStubPath, "hello", "bye"});
  std::ofstream(bench.record() + "/reports") << "a file where the folder would be";
  const Ended pair = bench.run(kPair);
  EXPECT_EQ(pair.code, kNoVerdict) << pair.err;
  EXPECT_NE(pair.out.find("what was compared"), std::string::npos) << pair.out;
  EXPECT_NE(pair.err.find("cannot write the report"), std::string::npos) << pair.err;
  const std::string group = recorder::Reader(bench.record()).runs().at(1).group_id;
  for (const Words& place : {Words{}, Words{"-o", "/proc/none/a.html"}, Words{"-o", bench.folder().string()}, Words{"-o", "/dev/full/a.html"}}) {
    Words words{"report", group};
    words.insert(words.end(), place.begin(), place.end());
    const Ended ended = bench.run(words);
    EXPECT_EQ(ended.code, 3) << ended.err;
    EXPECT_EQ(lines(ended.err), 1U) << ended.err;
    EXPECT_EQ(ended.out, "");
  }
  EXPECT_EQ(read_file(bench.record() + "/reports"), "a file where the folder would be");
}

// A device named with -o, /dev/null even, was replaced by the page, and so was a link.
TEST(ReportTest, ADeviceIsWrittenToAndALinkStaysOne) {
  Bench bench;
  bench.run(kPair);
  const std::string group = group_of(bench);
  for (const std::string target : {"/dev/null", "/dev/full", "page.html"}) {
    const std::string link = bench.file("link");
    fs::remove(link);
    fs::create_symlink(target, link);
    const Ended ended = bench.run({"report", group, "-o", link});
    EXPECT_EQ(ended.code, target == "/dev/full" ? 3 : kNoVerdict) << ended.err;
    EXPECT_TRUE(fs::is_symlink(link)) << target;
  }
  EXPECT_TRUE(whole_page(bench.file("page.html")));
}

TEST(ReportTest, WhatIsNotInTheRecordIsWrongUsage) {
  Bench bench;
  bench.run({"launch", "--", kStubPath, "hello", "bye"});
  for (const Words& words : {Words{"report", "0badcafe"}, Words{"report", "x", "1"}, Words{"report", "1", "9"}, Words{"report"}}) {
    const Ended ended = bench.run(words);
    EXPECT_EQ(ended.code, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
  }
  EXPECT_FALSE(fs::exists(bench.record() + "/reports"));
}

}  // namespace
}  // namespace samerun::launch_test
