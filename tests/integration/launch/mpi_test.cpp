// Ranks that the launcher wires up for MPI: who they are, how they end, and what they leave.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "harness.h"
#include "mpi_paths.h"
#include "paths.h"
#include "samerun/recorder/reader.h"

namespace samerun::launch_test {
namespace {

namespace fs = std::filesystem;

/// The stub has MPI without Samerun's part, so any file will do for that.
class MpiBench : public Bench {
 public:
  MpiBench() { env["SAMERUN_MPI_LIBRARY"] = kMpiStubPath; }

  Words mpi_words(int ranks, const Words& stub_words) const {
    Words words{"launch", "--backend", "mpi", "-n", std::to_string(ranks), "--no-record", "--", kMpiStubPath};
    words.insert(words.end(), stub_words.begin(), stub_words.end());
    return words;
  }
  Ended launch_mpi(int ranks, const Words& stub_words) { return run(mpi_words(ranks, stub_words)); }
};

/// Folders that the launcher with this number has for MPI.
std::vector<fs::path> folders_of(pid_t launcher) {
  std::vector<fs::path> found;
  for (const fs::path& place : {fs::path("/dev/shm"), fs::temp_directory_path()}) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(place / ("samerun-" + std::to_string(::geteuid())), ignored)) {
      if (entry.path().filename().string().starts_with(std::to_string(launcher) + "-")) found.push_back(entry.path());
    }
  }
  return found;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Words kSums{"[0] rank 0 of 3 sums 6", "[1] rank 1 of 3 sums 6", "[2] rank 2 of 3 sums 6"};

TEST(MpiTest, EachRankHasItsPlaceAndReachesTheOthers) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(3, {"hello", "init", "tell", "finalize", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), kSums);
  EXPECT_TRUE(has(ended.err, "backend mpi (argument): MPI over shared memory (Open MPI ")) << ended.err;
}

TEST(MpiTest, ARankThatFailsEndsThoseThatWaitInABarrier) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(3, {"hello", "init", "mark=up", "1:await=up.0", "1:await=up.2", "1:exit=7", "barrier", "bye"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(has(ended.err, "rank 1 on ") && has(ended.err, "exited with code 7")) << ended.err;
  for (const char* name : {"up.0", "up.1", "up.2"}) EXPECT_FALSE(running(bench.await_mark(name))) << name;
}

TEST(MpiTest, ARankThatIsKilledIsNamedAndEndsTheOthers) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(3, {"hello", "init", "mark=up", "2:await=up.0", "2:await=up.1", "2:kill", "barrier", "bye"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(has(ended.err, "rank 2 on ") && has(ended.err, "was killed by SIGKILL")) << ended.err;
  for (const char* name : {"up.0", "up.1"}) EXPECT_FALSE(running(bench.await_mark(name))) << name;
}

TEST(MpiTest, MpiAbortIsThatRanksFailure) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(3, {"hello", "init", "1:abort=5", "barrier", "bye"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(has(ended.err, "rank 1 on ") && has(ended.err, "exited with code 5")) << ended.err;
}

TEST(MpiTest, ARankThatFailsBeforeMpiStartsEndsThoseThatWaitForIt) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(3, {"hello", "mark=up", "1:await=up.0", "1:await=up.2", "1:exit=4", "init", "bye"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_TRUE(has(ended.err, "rank 1 on ") && has(ended.err, "exited with code 4")) << ended.err;
}

TEST(MpiTest, RanksThatNeverStartMpiRunAsWithoutIt) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(3, {"hello", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_FALSE(has(ended.err, "warning: rank")) << ended.err;
}

TEST(MpiTest, ARankThatEndsWithoutFinalizeKeepsNoOtherFromEnding) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(3, {"hello", "init", "tell", "1:bye", "1:exit=0", "finalize", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), kSums);
}

TEST(MpiTest, NothingSurvivesALauncherThatIsKilledAndTheNextRemovesItsFiles) {
  MpiBench bench;
  bench.start(bench.mpi_words(2, {"hello", "init", "mark=up", "1:await=never", "barrier"}));
  const pid_t launcher = bench.pid();
  const std::vector<pid_t> ranks{bench.await_mark("up.0"), bench.await_mark("up.1")};
  EXPECT_EQ(folders_of(launcher).size(), 1u);
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(bench.finish().signal, SIGKILL);
  for (const pid_t pid : ranks) EXPECT_TRUE(await_gone(pid)) << pid;
  bench.launch_mpi(2, {"hello", "bye"});
  EXPECT_TRUE(folders_of(launcher).empty());
}

TEST(MpiTest, ARunThatEndsLeavesNoFiles) {
  MpiBench bench;
  for (const Words& words : {Words{"hello", "init", "mark=up", "finalize", "bye"}, Words{"hello", "init", "mark=up", "kill"}}) {
    bench.start(bench.mpi_words(2, words));
    const pid_t launcher = bench.pid();
    bench.finish();
    EXPECT_TRUE(fs::exists(bench.file("up.0"))) << "MPI did not start";
    EXPECT_TRUE(folders_of(launcher).empty());
  }
}

TEST(MpiTest, NoDescriptorOfTheServerReachesTheRanks) {
  MpiBench bench;
  const Ended ended = bench.run({"launch", "--backend", "mpi", "-n", "2", "--no-record", "--", kStubPath, "hello", "descriptors", "bye"});
  // The control pipe; rank 0 has the rendezvous socket besides.
  EXPECT_EQ(sorted_lines(ended.out), (Words{"[0] descriptors 2", "[1] descriptors 1"})) << ended.err;
}

TEST(MpiTest, ALaunchInsideMpirunWiresItsOwnRanks) {
  MpiBench bench;
  bench.program = kMpirunPath;
  Words words{"--allow-run-as-root", "--oversubscribe", "-n", "1", kSamerunPath};
  for (const std::string& word : bench.mpi_words(3, {"hello", "init", "tell", "finalize", "bye"})) words.push_back(word);
  const Ended ended = bench.run(words);
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), kSums);
}

TEST(MpiTest, ALaunchInASlurmAllocationWiresItsOwnRanks) {
  MpiBench bench;
  // As salloc's shell has it: Open MPI's part for Slurm would take each rank for a process alone.
  bench.env["SLURM_JOBID"] = bench.env["SLURM_JOB_ID"] = "5";
  bench.env["SLURM_NODELIST"] = "localhost";
  const Ended ended = bench.launch_mpi(3, {"hello", "init", "tell", "finalize", "bye"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(sorted_lines(ended.out), kSums);
}

TEST(MpiTest, TheUsersOwnSettingsOfMpiAreKept) {
  MpiBench bench;
  bench.env["OMPI_MCA_btl"] = "tcp,self";
  bench.env["OMPI_MCA_osc_sm_backing_directory"] = "/tmp";
  const Ended ended = bench.launch_mpi(2, {"hello", "1:env=OMPI_MCA_btl", "1:env=OMPI_MCA_osc_sm_backing_directory", "bye"});
  EXPECT_EQ(ended.out, "[1] OMPI_MCA_btl=tcp,self\n[1] OMPI_MCA_osc_sm_backing_directory=/tmp\n") << ended.err;
}

TEST(MpiTest, OneRankIsNotWiredUp) {
  MpiBench bench;
  const Ended ended = bench.launch_mpi(1, {"hello", "env=PMIX_NAMESPACE", "env=SAMERUN_BACKEND", "bye"});
  EXPECT_EQ(ended.out, "PMIX_NAMESPACE=\nSAMERUN_BACKEND=mpi\n") << ended.err;
}

TEST(MpiTest, AutoOffersMpiWhereItIsThere) {
  MpiBench bench;
  const Ended ended = bench.launch(2, {"hello", "1:env=SAMERUN_BACKEND", "1:env=PMIX_RANK", "1:env=SAMERUN_MPI_LIBRARY", "bye"});
  EXPECT_EQ(ended.out, std::string("[1] SAMERUN_BACKEND=auto\n[1] PMIX_RANK=1\n[1] SAMERUN_MPI_LIBRARY=") + kMpiStubPath + "\n");
  EXPECT_TRUE(has(ended.err, "backend auto: MPI over shared memory (Open MPI ")) << ended.err;
}

TEST(MpiTest, OnlyRunsOfSeveralRanksInAPairAreWiredUp) {
  MpiBench bench;
  const Ended ended =
      bench.run({"pair", "--backend", "mpi", "-n", "2", "--", kMpiStubPath, "hello", "env=PMIX_NAMESPACE", "env=SAMERUN_BACKEND", "bye"});
  const std::vector<recorder::RunRow> runs = recorder::Reader(bench.record()).runs();
  ASSERT_EQ(runs.size(), 8u) << ended.err;
  for (const recorder::RunRow& run : runs) {
    const std::string log = read_file(bench.record() + "/logs/" + std::to_string(run.id) + ".log");
    const std::string job = run.world_size > 1 ? "samerun-" + std::to_string(run.id) + "-" : "\n";
    EXPECT_TRUE(has(log, "[0] PMIX_NAMESPACE=" + job) && has(log, "[0] SAMERUN_BACKEND=mpi\n")) << run.role << log;
  }
}

TEST(MpiTest, AnOpenMpiThatCannotBeLoadedIsSaidBeforeAnythingIsRecorded) {
  MpiBench bench;
  bench.write("libmpi.so.40", "");
  bench.env["LD_LIBRARY_PATH"] = bench.folder().string();
  const Ended asked = bench.run({"launch", "--backend", "mpi", "-n", "2", "--", kStubPath, "hello", "bye"});
  EXPECT_EQ(asked.code, 3);
  EXPECT_TRUE(has(asked.err, "libmpi.so.40") && has(asked.err, "apt-get install libopenmpi3")) << asked.err;
  EXPECT_FALSE(fs::exists(bench.record())) << "a record was made for nothing";
  const Ended offered = bench.launch(2, {"hello", "1:env=PMIX_NAMESPACE", "bye"});
  EXPECT_EQ(offered.code, 0) << offered.err;
  EXPECT_EQ(offered.out, "[1] PMIX_NAMESPACE=\n");
  EXPECT_TRUE(has(offered.err, "backend auto: Gloo (Open MPI is not installed)")) << offered.err;
}

}  // namespace
}  // namespace samerun::launch_test
