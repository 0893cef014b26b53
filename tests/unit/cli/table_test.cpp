#include "table.h"

#include <gtest/gtest.h>

namespace samerun::cli {
namespace {

TEST(TableTest, ColumnsAlignAndLinesEndWithoutBlanks) {
  EXPECT_EQ(table_text({{"run", "role"}, {"12", "x"}, {"3", ""}}), "run  role\n12   x\n3\n");
}

TEST(TableTest, TimesAreReadable) {
  EXPECT_EQ(utc_text(0), "1970-01-01 00:00:00");
  EXPECT_EQ(duration_text(4'240'000'000), "4.2 s");
  EXPECT_EQ(duration_text(200'000'000'000), "3 min 20 s");
  EXPECT_EQ(duration_text(7'500'000'000'000), "2 h 5 min");
}

TEST(TableTest, ACommandCanBePastedAndHoldsNoControlCharacters) {
  EXPECT_EQ(command_text({"./train", "--name", "a b", "it's", ""}), "./train --name 'a b' 'it'\\''s' ''");
  EXPECT_EQ(command_text({"x\x1b[31m"}), "x\\x1b[31m");
}

}  // namespace
}  // namespace samerun::cli
