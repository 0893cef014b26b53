#include "launch_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "samerun/core/error.h"
#include "samerun/runtime/options.h"

namespace samerun::detail {
namespace {

/// Clears every variable that a launcher may have set, then sets those given.
class LaunchEnvironmentTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }

  static void clear() {
    for (const char* name : {"SAMERUN_RANK",
                             "SAMERUN_WORLD_SIZE",
                             "SAMERUN_LOCAL_RANK",
                             "SAMERUN_STORE_HOST",
                             "SAMERUN_STORE_PORT",
                             "SAMERUN_STORE_FD",
                             "SAMERUN_CONTROL_FD",
                             "SAMERUN_THREADS",
                             "SAMERUN_PRECISION",
                             "SAMERUN_REPLAY_WORLD",
                             "SAMERUN_REFERENCE",
                             "SAMERUN_VARIATION",
                             "SAMERUN_LOCKED_STEPS",
                             "SAMERUN_CAPTURE_TO",
                             "SAMERUN_LOCKED_OF",
                             "SAMERUN_LOCKED_FROM",
                             "SAMERUN_STOP_AFTER_STEPS",
                             "SAMERUN_SHADOW",
                             "SAMERUN_SEED",
                             "SAMERUN_ACCUMULATION_STEPS",
                             "SAMERUN_TIMEOUT_S",
                             "RANK",
                             "WORLD_SIZE",
                             "LOCAL_RANK",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_RANK",
                             "SLURM_PROCID",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_LOCALID",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "MPI_LOCALRANKID"})
      ::unsetenv(name);
  }
  static void set(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  }
  /// The message of the kConfig error that `read` throws with these variables alone.
  template <class Read>
  static std::string refusal(const std::map<std::string, std::string>& variables, Read read) {
    clear();
    set(variables);
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kConfig);
      return error.what();
    }
    return "(accepted)";
  }
  static std::string refused_launch(const std::map<std::string, std::string>& variables) { return refusal(variables, read_launch_environment); }
  static std::string refused_mode(const std::map<std::string, std::string>& variables) { return refusal(variables, read_mode); }
};

TEST_F(LaunchEnvironmentTest, WithoutALauncherThereIsOneRank) {
  const LaunchInfo info = read_launch_environment();
  EXPECT_EQ(info.rank, 0);
  EXPECT_EQ(info.world_size, 1);
  EXPECT_EQ(info.source, "none");
  EXPECT_EQ(info.control_fd, -1);
}

TEST_F(LaunchEnvironmentTest, EachLaunchersVariablesAreRead) {
  const std::map<std::string, std::map<std::string, std::string>> launchers{
      {"samerun launch",
       {{"SAMERUN_RANK", "2"},
        {"SAMERUN_WORLD_SIZE", "4"},
        {"SAMERUN_LOCAL_RANK", "1"},
        {"SAMERUN_STORE_HOST", "h"},
        {"SAMERUN_STORE_PORT", "4711"}}},
      {"torchrun", {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "4711"}}},
      {"Open MPI",
       {{"OMPI_COMM_WORLD_RANK", "2"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"MASTER_ADDR", "h"},
        {"MASTER_PORT", "4711"}}},
      {"Slurm", {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "4711"}}},
      {"PMI", {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MASTER_ADDR", "h"}, {"MASTER_PORT", "4711"}}}};
  for (const auto& [source, variables] : launchers) {
    clear();
    set(variables);
    const LaunchInfo info = read_launch_environment();
    EXPECT_EQ(info.source, source);
    EXPECT_EQ(info.rank, 2) << source;
    EXPECT_EQ(info.world_size, 4) << source;
    EXPECT_EQ(info.local_rank, 1) << source;
    EXPECT_EQ(info.store_host, "h") << source;
    EXPECT_EQ(info.store_port, 4711) << source;
  }
}

TEST_F(LaunchEnvironmentTest, SamerunsOwnVariablesWinOverOthers) {
  set({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"SAMERUN_RANK", "1"}, {"SAMERUN_WORLD_SIZE", "2"}, {"SAMERUN_STORE_PORT", "4711"}});
  EXPECT_EQ(read_launch_environment().world_size, 2);
}

TEST_F(LaunchEnvironmentTest, ARankWithoutAWorldSizeIsAnErrorAndNeverOneRank) {
  const std::string cases[][2] = {{"SAMERUN_RANK", "SAMERUN_WORLD_SIZE"},
                                  {"RANK", "WORLD_SIZE"},
                                  {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                  {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                  {"PMI_RANK", "PMI_SIZE"}};
  for (const auto& [rank, size] : cases) {
    const std::string one = refused_launch({{rank, "1"}}), other = refused_launch({{size, "4"}});
    EXPECT_NE(one.find(rank + " is set but " + size + " is not"), std::string::npos) << one;
    EXPECT_NE(other.find(size + " is set but " + rank + " is not"), std::string::npos) << other;
  }
}

TEST_F(LaunchEnvironmentTest, ALocalRankAloneIsAnErrorAndNeverOneRank) {
  for (const char* name : {"SAMERUN_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    const std::string text = refused_launch({{name, "1"}});
    EXPECT_NE(text.find(std::string(name) + " is set but"), std::string::npos) << text;
  }
}

TEST_F(LaunchEnvironmentTest, NumbersThatMakeNoSenseAreErrorsThatNameTheVariable) {
  const std::map<std::string, std::string> good{{"SAMERUN_RANK", "0"}, {"SAMERUN_WORLD_SIZE", "2"}, {"SAMERUN_STORE_PORT", "4711"}};
  const std::string bad[][2] = {{"SAMERUN_RANK", "-1"},       {"SAMERUN_RANK", "x"},           {"SAMERUN_RANK", "1x"},
                                {"SAMERUN_RANK", "2"},        {"SAMERUN_WORLD_SIZE", "0"},     {"SAMERUN_WORLD_SIZE", "99999999999999999999"},
                                {"SAMERUN_STORE_PORT", "0"},  {"SAMERUN_STORE_PORT", "65536"}, {"SAMERUN_STORE_FD", "1"},
                                {"SAMERUN_LOCAL_RANK", "-1"}, {"SAMERUN_THREADS", "0"},        {"SAMERUN_CONTROL_FD", "two"}};
  for (const auto& [name, value] : bad) {
    auto variables = good;
    variables[name] = value;
    const std::string text = refused_launch(variables);
    EXPECT_NE(text.find(name), std::string::npos) << name << "=" << value << ": " << text;
  }
}

TEST_F(LaunchEnvironmentTest, SeveralRanksNeedAStore) {
  EXPECT_NE(refused_launch({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_PORT"), std::string::npos);
  EXPECT_NE(refused_launch({{"SAMERUN_RANK", "1"}, {"SAMERUN_WORLD_SIZE", "2"}}).find("SAMERUN_STORE_PORT"), std::string::npos);
  EXPECT_EQ(refused_launch({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "(accepted)");
}

TEST_F(LaunchEnvironmentTest, AModeIsPlainUnlessSet) {
  const Mode mode = read_mode();
  EXPECT_FALSE(mode.float64);
  EXPECT_FALSE(mode.whole);
  EXPECT_FALSE(mode.measures());
  EXPECT_FALSE(mode.locked(0));
  EXPECT_EQ(mode.replay_world, 0);
  EXPECT_EQ(mode.variation, 0);
  EXPECT_EQ(mode.stop_after, 0);
}

TEST_F(LaunchEnvironmentTest, AModeIsReadFromTheEnvironment) {
  set({{"SAMERUN_PRECISION", "float64"},
       {"SAMERUN_REPLAY_WORLD", "4"},
       {"SAMERUN_REFERENCE", "whole"},
       {"SAMERUN_VARIATION", "2"},
       {"SAMERUN_LOCKED_STEPS", "0,1,17"},
       {"SAMERUN_LOCKED_FROM", "folder"},
       {"SAMERUN_LOCKED_OF", "3"},
       {"SAMERUN_STOP_AFTER_STEPS", "9"},
       {"SAMERUN_SHADOW", "20:400"}});
  const Mode mode = read_mode();
  EXPECT_TRUE(mode.float64);
  EXPECT_EQ(mode.replay_world, 4);
  EXPECT_TRUE(mode.whole);
  EXPECT_EQ(mode.variation, 2);
  EXPECT_EQ(mode.locked_steps, (std::set<std::int64_t>{0, 1, 17}));
  EXPECT_TRUE(mode.measures());
  EXPECT_EQ(mode.locked_of, 3);
  EXPECT_EQ(mode.stop_after, 9);
  EXPECT_EQ(mode.shadow_least, 20);
  EXPECT_EQ(mode.shadow_most, 400);
}

TEST_F(LaunchEnvironmentTest, AModeThatMakesNoSenseIsAnErrorThatNamesTheVariable) {
  const std::string bad[][2] = {{"SAMERUN_PRECISION", "float16"}, {"SAMERUN_REPLAY_WORLD", "0"},  {"SAMERUN_REFERENCE", "all"},
                                {"SAMERUN_VARIATION", "-1"},      {"SAMERUN_LOCKED_STEPS", "1,"}, {"SAMERUN_LOCKED_STEPS", "1,,2"},
                                {"SAMERUN_LOCKED_STEPS", "one"},  {"SAMERUN_LOCKED_STEPS", "-1"}, {"SAMERUN_STOP_AFTER_STEPS", "0"},
                                {"SAMERUN_SHADOW", "20"},         {"SAMERUN_SHADOW", "20:"},      {"SAMERUN_SHADOW", ":5"},
                                {"SAMERUN_SHADOW", "0:5"},        {"SAMERUN_SHADOW", "20:400x"},  {"SAMERUN_LOCKED_OF", "x"}};
  for (const auto& [name, value] : bad) {
    const std::string text = refused_mode({{name, value}});
    EXPECT_NE(text.find(name), std::string::npos) << name << "=" << value << ": " << text;
  }
}

TEST_F(LaunchEnvironmentTest, OptionsKeepWhereTheyCameFrom) {
  set({{"SAMERUN_SEED", "5"}, {"SAMERUN_ACCUMULATION_STEPS", "4"}});
  Options options = resolve_options(0, nullptr);
  EXPECT_EQ(options.seed.value(), 5);
  EXPECT_EQ(options.seed.origin(), Origin::kEnvironment);
  EXPECT_EQ(options.timeout_s.origin(), Origin::kDefault);
  options.accumulation_steps = 2;  // what the program says wins over the environment
  EXPECT_EQ(options.accumulation_steps.value(), 2);
  EXPECT_EQ(options.accumulation_steps.origin(), Origin::kArgument);
  const auto read = [] { resolve_options(0, nullptr); };
  EXPECT_NE(refusal({{"SAMERUN_SEED", "-1"}}, read).find("SAMERUN_SEED"), std::string::npos);
  EXPECT_NE(refusal({{"SAMERUN_ACCUMULATION_STEPS", "0"}}, read).find("SAMERUN_ACCUMULATION_STEPS"), std::string::npos);
  EXPECT_NE(refusal({{"SAMERUN_TIMEOUT_S", "soon"}}, read).find("SAMERUN_TIMEOUT_S"), std::string::npos);
}

}  // namespace
}  // namespace samerun::detail
