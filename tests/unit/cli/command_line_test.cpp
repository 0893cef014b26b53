#include "command_line.h"

#include <gtest/gtest.h>

namespace samerun::cli {
namespace {

using Words = std::vector<std::string>;

template <class T>
T parsed(const Words& words) {
  const Command command = parse_command_line(words);
  if (const auto* error = std::get_if<UsageError>(&command)) ADD_FAILURE() << error->text;
  return std::get<T>(command);
}

std::string usage(const Words& words) {
  return std::get<UsageError>(parse_command_line(words)).text;
}

TEST(CommandLineTest, WhatWasNotTypedStaysUnset) {
  const auto options = parsed<LaunchOptions>({"launch", "--", "train"});
  EXPECT_FALSE(options.ranks || options.threads || options.timeout_s || options.seed || options.record_dir);
  EXPECT_FALSE(options.no_record || options.prefix || options.quiet);
  EXPECT_EQ(options.command, Words{"train"});
}

TEST(CommandLineTest, CommandsThatStartRunsTakeABackend) {
  EXPECT_EQ(parsed<LaunchOptions>({"launch", "--backend", "mpi", "train"}).backend, "mpi");
  EXPECT_EQ(parsed<PairOptions>({"pair", "--backend=gloo", "train"}).backend, "gloo");
  EXPECT_EQ(parsed<ResumeCheckOptions>({"resume-check", "--backend", "auto", "train"}).backend, "auto");
  EXPECT_FALSE(parsed<LaunchOptions>({"launch", "train"}).backend);
  EXPECT_NE(usage({"launch", "--backend", "smoke", "train"}).find("auto,gloo,mpi,nccl"), std::string::npos);
}

TEST(CommandLineTest, AllSpellingsOfRanks) {
  for (const Words& flag :
       {Words{"-n", "3"}, Words{"-n3"}, Words{"--nproc-per-node", "3"}, Words{"--nproc_per_node=3"}, Words{"--num_processes", "3"}}) {
    Words words{"launch"};
    words.insert(words.end(), flag.begin(), flag.end());
    words.push_back("train");
    EXPECT_EQ(parsed<LaunchOptions>(words).ranks, 3);
  }
}

TEST(CommandLineTest, TheProgramBeginsAtTheFirstWordThatIsNoFlag) {
  EXPECT_EQ(parsed<LaunchOptions>({"launch", "--seed", "1", "train", "--seed", "2", "--", "x"}).command, (Words{"train", "--seed", "2", "--", "x"}));
  EXPECT_EQ(parsed<LaunchOptions>({"launch", "--", "--odd-name"}).command, Words{"--odd-name"});
}

TEST(CommandLineTest, AValueKeepsItsUnderscores) {
  EXPECT_EQ(parsed<LaunchOptions>({"launch", "--record_dir=a_b", "train"}).record_dir, "a_b");
  EXPECT_EQ(parsed<PairOptions>({"pair", "--candidate_env=A_B=c_d", "train"}).candidate_env, Words{"A_B=c_d"});
}

TEST(CommandLineTest, PairTakesRepeatedVariables) {
  const auto options = parsed<PairOptions>({"pair", "-n", "4", "--strict", "--candidate-env", "A=1", "--candidate-env", "B=2", "--reference-env",
                                            "C=3", "--reference", "whole", "--steps", "5", "--", "train"});
  EXPECT_EQ(options.candidate_env, (Words{"A=1", "B=2"}));
  EXPECT_EQ(options.reference_env, Words{"C=3"});
  EXPECT_EQ(options.reference, "whole");
  EXPECT_EQ(options.steps, 5);
  EXPECT_EQ(options.shadow_steps, 200);
  EXPECT_TRUE(options.strict);
}

TEST(CommandLineTest, ReadersTakeRunNumbers) {
  const auto verify = parsed<VerifyOptions>({"verify", "3", "4", "--strict", "--json"});
  EXPECT_EQ(verify.run_a, 3);
  EXPECT_EQ(verify.run_b, 4);
  EXPECT_TRUE(verify.strict && verify.json);
  EXPECT_EQ(parsed<ShowOptions>({"show", "--json", "7"}).run, 7);
  EXPECT_NE(usage({"verify", "3"}).find("RUN_B"), std::string::npos);
  EXPECT_NE(usage({"show", "1", "2"}).find("samerun show --help"), std::string::npos);
}

TEST(CommandLineTest, UnknownWordsAreNamedWithTheNearestKnownOne) {
  EXPECT_NE(usage({"launch", "--recrd-dir", "x", "train"}).find("unknown flag --recrd-dir; did you mean --record-dir?"), std::string::npos);
  EXPECT_NE(usage({"launch", "-z", "train"}).find("unknown flag -z"), std::string::npos);
  EXPECT_NE(usage({"rums"}).find("unknown command rums; did you mean runs?"), std::string::npos);
  EXPECT_NE(usage({}).find("no command given"), std::string::npos);
}

TEST(CommandLineTest, AFlagWithoutItsValueIsAnError) {
  EXPECT_NE(usage({"launch", "-n"}).find("samerun launch --help"), std::string::npos);
  EXPECT_NE(usage({"launch", "-n", "4097", "train"}).find("--nproc-per-node"), std::string::npos);
}

TEST(CommandLineTest, HelpWinsOverAMissingProgram) {
  EXPECT_NE(std::get<PrintText>(parse_command_line({"launch", "-n", "2", "--help"})).text.find("-- PROGRAM [ARGS...]"), std::string::npos);
  EXPECT_NE(std::get<PrintText>(parse_command_line({"--help"})).text.find("pair"), std::string::npos);
}

}  // namespace
}  // namespace samerun::cli
