// What carries the collectives: what is asked for, what ranks are told, and what is said where it cannot be had. No MPI is needed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "harness.h"
#include "paths.h"
#include "samerun/recorder/attach.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"

namespace samerun::launch_test {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A program without the libraries that lie beside the built one.
void use_lone_program(Bench& bench) {
  bench.program = bench.file("samerun");
  fs::copy_file(kSamerunPath, bench.program);
}

TEST(ChosenBackendTest, TheWordReachesTheRanksAndTheFlagWins) {
  Bench bench;
  bench.env["SAMERUN_BACKEND"] = "gloo";
  const Ended variable = bench.launch(2, {"hello", "1:env=SAMERUN_BACKEND", "1:env=PMIX_NAMESPACE", "bye"});
  EXPECT_EQ(variable.out, "[1] SAMERUN_BACKEND=gloo\n[1] PMIX_NAMESPACE=\n");
  EXPECT_TRUE(has(variable.err, "backend gloo (environment)")) << variable.err;
  const Ended flag = bench.run({"launch", "--backend", "nccl", "-n", "2", "--no-record", "--", kStubPath, "hello", "1:env=SAMERUN_BACKEND", "bye"});
  EXPECT_EQ(flag.out, "[1] SAMERUN_BACKEND=nccl\n");
  EXPECT_TRUE(has(flag.err, "backend nccl (argument)")) << flag.err;
}

TEST(ChosenBackendTest, AnUnknownBackendIsAUsageErrorThatNamesTheKnownOnes) {
  Bench bench;
  for (const char* command : {"launch", "pair", "resume-check"}) {
    const Ended flag = bench.run({command, "--backend", "smoke", "--", kStubPath, "hello", "bye"});
    EXPECT_EQ(flag.code, 2);
    EXPECT_TRUE(has(flag.err, "smoke") && has(flag.err, "auto,gloo,mpi,nccl")) << flag.err;
  }
  bench.env["SAMERUN_BACKEND"] = "smoke";
  const Ended variable = bench.run({"launch", "--", kStubPath, "hello", "bye"});
  EXPECT_EQ(variable.code, 2);
  EXPECT_TRUE(has(variable.err, "SAMERUN_BACKEND is smoke") && has(variable.err, "auto, gloo, mpi, nccl")) << variable.err;
  EXPECT_FALSE(fs::exists(bench.record())) << "a record was made for nothing";
}

TEST(ChosenBackendTest, MpiThatIsNotThereIsSaidBeforeAnythingIsRecorded) {
  Bench bench;
  use_lone_program(bench);
  for (const char* command : {"launch", "pair", "resume-check"}) {
    const Ended ended = bench.run({command, "--backend", "mpi", "-n", "2", "--", kStubPath, "hello", "mark=up", "bye"});
    EXPECT_EQ(ended.code, 3);
    EXPECT_TRUE(has(ended.err, "libopenmpi-dev") && has(ended.err, "libpmix-dev") && has(ended.err, "--backend gloo")) << ended.err;
  }
  EXPECT_FALSE(fs::exists(bench.record()) || fs::exists(bench.file("up.0"))) << "something was started or recorded";
}

TEST(ChosenBackendTest, AutoGoesOnWithoutMpiAndSaysWhy) {
  Bench bench;
  use_lone_program(bench);
  const Ended ended = bench.launch(2, {"hello", "1:env=SAMERUN_BACKEND", "1:env=PMIX_NAMESPACE", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "[1] SAMERUN_BACKEND=auto\n[1] PMIX_NAMESPACE=\n");
  EXPECT_TRUE(has(ended.err, "backend auto: Gloo (Samerun was built without its MPI part)")) << ended.err;
  EXPECT_FALSE(has(bench.launch(1, {"hello", "bye"}).err, "backend")) << "one rank has no use for any";
}

TEST(ChosenBackendTest, WhatAnotherMpiLauncherLeftReachesNoRank) {
  Bench bench;
  for (const char* name : {"PMIX_NAMESPACE", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_MCA_ess", "OMPI_MCA_btl"}) bench.env[name] = "x";
  bench.env["SAMERUN_BACKEND"] = "gloo";
  const Ended ended = bench.launch(
      2, {"hello", "1:env=PMIX_NAMESPACE", "1:env=PMI_RANK", "1:env=OMPI_COMM_WORLD_RANK", "1:env=OMPI_MCA_ess", "1:env=OMPI_MCA_btl", "bye"});
  EXPECT_EQ(ended.out, "[1] PMIX_NAMESPACE=\n[1] PMI_RANK=\n[1] OMPI_COMM_WORLD_RANK=\n[1] OMPI_MCA_ess=\n[1] OMPI_MCA_btl=x\n");
}

/// A run of two ranks whose record says which backend it used, and a checkpoint of it.
void record_run(const Bench& bench, const std::string& backend) {
  recorder::Store store(bench.record());
  recorder::NewRun run;
  run.world_size = 2;
  run.argv = {kStubPath, "hello", "1:env=SAMERUN_BACKEND", "bye"};
  run.cwd = bench.folder().string();
  const std::int64_t id = store.begin_run(run);
  ::setenv("SAMERUN_STAGING", store.staging_folder(id).c_str(), 1);
  recorder::attach_from_env()->on_setting({"backend", backend, "default"});
  ::unsetenv("SAMERUN_STAGING");
  store.end_run(id, "failed", 3, "", {});
  fs::create_directories(bench.file("checkpoint"));
  bench.write("checkpoint/manifest.json", R"({"saved_utc_ns": 1, "position": {"optimizer_step": 3}})");
}

TEST(ChosenBackendTest, AResumedRunUsesTheBackendOfTheOldOneAndNotTheShells) {
  const std::map<std::string, std::string> told{{"gloo", "gloo"}, {"none", "auto"}, {"nccl", "auto"}};
  for (const auto& [used, word] : told) {
    Bench bench;
    record_run(bench, used);
    bench.env["SAMERUN_BACKEND"] = "mpi";
    const Ended ended = bench.run({"resume", "1", "--checkpoint", "checkpoint"});
    EXPECT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(ended.out, "[1] SAMERUN_BACKEND=" + word + "\n") << used;
    EXPECT_TRUE(has(ended.err, "backend " + word)) << ended.err;
  }
}

TEST(ChosenBackendTest, ARunOverMpiIsNotResumedWithoutIt) {
  Bench bench;
  use_lone_program(bench);
  record_run(bench, "mpi");
  const Ended ended = bench.run({"resume", "1", "--checkpoint", "checkpoint"});
  EXPECT_EQ(ended.code, 3) << ended.err;
  EXPECT_TRUE(has(ended.err, "run 1 used MPI") && has(ended.err, "libopenmpi-dev")) << ended.err;
  EXPECT_EQ(recorder::Reader(bench.record()).runs().size(), 1u) << "a run was recorded";
}

}  // namespace
}  // namespace samerun::launch_test
