#include "speed.h"

#include <gtest/gtest.h>

#include <sstream>

#include "table.h"

namespace samerun::cli {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

profiler::Scaling scaling(double scale) {
  profiler::Scaling result;
  result.regime = profiler::Regime::kStrong;
  result.reference.ranks = 1;
  result.reference.step_ms.median = 12.34 * scale;
  result.reference.samples_per_step = 256;
  result.candidate.ranks = 4;
  result.candidate.step_ms.median = 6.5 * scale;
  result.candidate.mean_ms = 7 * scale;
  result.candidate.samples_per_step = 256;
  result.efficiency = 0.475;
  result.efficiency_low = 0.42;
  result.efficiency_high = 0.51;
  result.ideal_ms = 3 * scale;
  result.lost_ms = {0.01 * scale, 1.2 * scale, 2.5 * scale, -0.1 * scale, 0, 0.3 * scale, 0.09 * scale, 0};
  return result;
}

TEST(ScalingBlockTest, SaysTheStepsTheRegimeAndWhereTheTimeWentTheWorstFirst) {
  EXPECT_EQ(scaling_block(scaling(1), "; the ranks share 2 cores"),
            "speed       median step of 1 rank 12.3 ms, of 4 ranks 6.50 ms; efficiency 0.47\n"
            "            (95 %: 0.42 to 0.51), strong scaling: 256 and 256 samples a step;\n"
            "            the ranks share 2 cores\n"
            "            mean step 7.00 ms, ideally 3.00; lost to exposed communication 2.50\n"
            "            (36 %), compute 1.20 (17 %), evaluation 0.30 (4 %), recording 0.09\n"
            "            (1 %), optimizer -0.10 (-1 %), all else 0.01\n");
}

TEST(ScalingBlockTest, HasSixLinesOfEightyColumnsAtMost) {
  auto slow = scaling(1e6);
  slow.lost_ms.fill(123456789);
  slow.candidate.samples_per_step = slow.reference.samples_per_step = 123456789;
  const auto lines = lines_of(scaling_block(slow, "; the ranks share 128 cores"));
  EXPECT_LE(lines.size(), 6U);
  for (const auto& line : lines) EXPECT_LE(line.size(), 80U) << line;
}

TEST(SpeedTextTest, ARunWithoutPhasesSaysNothing) {
  EXPECT_EQ(speed_text({}), "");
}

TEST(SpeedTextTest, ShowsEachPartOfAStepAndOfTheRun) {
  RunSpeed speed;
  speed.steps.emplace();
  speed.steps->wall_ms = {4, 4};
  speed.steps->mean_ms = 4;
  speed.steps->mean_parts_ms[1] = 3;
  speed.steps->slowest_ms[1] = {2, 3, 5};
  speed.ranks = {{0, {{"launch", 250'000'000}, {"training", 750'000'000}}}};
  const auto text = speed_text(speed);
  EXPECT_NE(text.find("compute                3.00       2.00  5.00  75.0 %"), std::string::npos) << text;
  EXPECT_NE(text.find("training  0.750 s  75.0 %"), std::string::npos) << text;
}

TEST(TableTest, WrapsAtBlanksAndCutsWhatDoesNotFit) {
  EXPECT_EQ(wrapped_text("aa bb cc", 1, 6, 9), " aa bb\n cc\n");
  EXPECT_EQ(wrapped_text("aa bb cc dd", 1, 6, 1), " aa...\n");
  EXPECT_EQ(wrapped_text("aaaaaaaaaa", 1, 6, 9), " aaaaa\n aaaaa\n");
  EXPECT_EQ(wrapped_text("", 1, 6, 9), "");
}

}  // namespace
}  // namespace samerun::cli
