#include "samerun/profiler/whole_run.h"

#include <gtest/gtest.h>

namespace samerun::profiler {
namespace {

TEST(WholeRunTest, LaunchAndShutdownCompleteTheWallTime) {
  const auto parts = whole_run({1000, 9000, 1700, {{"set-up", 300}, {"training", 5000}}});
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[0].name, "launch");
  EXPECT_EQ(parts[0].ns, 700);
  EXPECT_EQ(parts[1].ns, 300);
  EXPECT_EQ(parts[3].name, "shutdown");
  EXPECT_EQ(parts[3].ns, 9000 - 1700 - 5300);
}

TEST(WholeRunTest, ARankThatRecordedNoEndHasNoParts) {
  EXPECT_TRUE(whole_run({1000, 9000, 1700, {}}).empty());
}

}  // namespace
}  // namespace samerun::profiler
