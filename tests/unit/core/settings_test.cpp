#include "samerun/core/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "samerun/core/error.h"

namespace samerun {
namespace {

constexpr const char* kVariable = "SAMERUN_CORE_TEST_VARIABLE";

/// Sets the test's variable for one scope.
class Environment {
 public:
  explicit Environment(const char* value) { setenv(kVariable, value, 1); }
  ~Environment() { unsetenv(kVariable); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
};

template <class Read>
void expect_refused(const char* value, Read read) {
  const Environment environment(value);
  try {
    read();
    FAIL() << "accepted \"" << value << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kConfig);
    EXPECT_NE(std::string(error.what()).find(kVariable), std::string::npos) << error.what();
    EXPECT_EQ(error.context().at("value"), value);
  }
}

TEST(SettingTest, AssignedValueIsAnArgument) {
  Setting<int> setting(3, Origin::kEnvironment);
  EXPECT_EQ(setting.origin(), Origin::kEnvironment);
  setting = 5;
  EXPECT_EQ(setting.value(), 5);
  EXPECT_EQ(setting.origin(), Origin::kArgument);
  EXPECT_EQ(Setting<int>().origin(), Origin::kDefault);
}

TEST(SettingTest, OriginsHaveTheirWords) {
  EXPECT_EQ(to_string(Origin::kArgument), "argument");
  EXPECT_EQ(to_string(Origin::kEnvironment), "environment");
  EXPECT_EQ(to_string(Origin::kFile), "file");
  EXPECT_EQ(to_string(Origin::kDefault), "default");
}

TEST(NearestWordTest, FindsTheWordThatWasMeant) {
  const std::vector<std::string> known = {"batch-size", "world-size", "seed", "epochs"};
  EXPECT_EQ(nearest_word("batch-sise", known), "batch-size");
  EXPECT_EQ(nearest_word("epoch", known), "epochs");
  EXPECT_EQ(nearest_word("wrld-siz", known), "world-size");
  EXPECT_EQ(nearest_word("seed", known), "seed");
}

TEST(NearestWordTest, HyphenAndUnderscoreAreOneLetter) {
  EXPECT_EQ(nearest_word("batch_size", {"batch_sizes", "batch-size"}), "batch-size");
}

TEST(NearestWordTest, FarWordsAreNotOffered) {
  EXPECT_EQ(nearest_word("momentum", {"seed", "epochs"}), std::nullopt);
  EXPECT_EQ(nearest_word("abcdefghij", {"abcdefxxxx"}), std::nullopt) << "four edits";
  EXPECT_EQ(nearest_word("abcdefghij", {"abcdefgxxx"}), "abcdefgxxx") << "three edits";
  EXPECT_EQ(nearest_word("abcd", {"abxx"}), "abxx") << "half the word";
  EXPECT_EQ(nearest_word("abc", {"axx"}), std::nullopt) << "more than half the word";
  EXPECT_EQ(nearest_word("", {"a"}), std::nullopt);
  EXPECT_EQ(nearest_word("seed", {}), std::nullopt);
}

TEST(NearestWordTest, FirstOfEquallyNearWordsWins) {
  EXPECT_EQ(nearest_word("stap", {"step", "stop"}), "step");
}

TEST(EnvironmentTest, UnsetAndEmptyAreTheSame) {
  unsetenv(kVariable);
  EXPECT_EQ(environment_text(kVariable), std::nullopt);
  EXPECT_EQ(environment_integer(kVariable, 0, 9), std::nullopt);
  EXPECT_EQ(environment_bool(kVariable), std::nullopt);
  const Environment environment("");
  EXPECT_EQ(environment_text(kVariable), std::nullopt);
  EXPECT_EQ(environment_integer(kVariable, 0, 9), std::nullopt);
  EXPECT_EQ(environment_bool(kVariable), std::nullopt);
}

TEST(EnvironmentTest, TextIsTakenAsItIs) {
  const Environment environment(" a b ");
  EXPECT_EQ(environment_text(kVariable), " a b ");
}

TEST(EnvironmentTest, WholeNumbersWithinTheRangeAreRead) {
  for (const auto& [text, value] : {std::pair{"0", 0}, {"-3", -3}, {"9", 9}, {"007", 7}}) {
    const Environment environment(text);
    EXPECT_EQ(environment_integer(kVariable, -3, 9), value) << text;
  }
}

TEST(EnvironmentTest, AnythingElseIsRefusedByName) {
  for (const char* text : {"10", "-4", "4.0", "4x", "x", " 4", "4 ", "0x4", "99999999999999999999"}) {
    expect_refused(text, [] { environment_integer(kVariable, -3, 9); });
  }
}

TEST(EnvironmentTest, YesAndNoAreReadInAnyCase) {
  for (const char* text : {"y", "yes", "t", "true", "on", "1", "True", "YES"}) {
    const Environment environment(text);
    EXPECT_EQ(environment_bool(kVariable), true) << text;
  }
  for (const char* text : {"n", "no", "f", "false", "off", "0", "False", "OFF"}) {
    const Environment environment(text);
    EXPECT_EQ(environment_bool(kVariable), false) << text;
  }
  for (const char* text : {"2", "maybe", "yes "}) {
    expect_refused(text, [] { environment_bool(kVariable); });
  }
}

}  // namespace
}  // namespace samerun
