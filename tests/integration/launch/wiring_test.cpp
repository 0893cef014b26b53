// The launcher's loop with runs that are wired up for MPI, as a pair has it: in this process, since no command starts two such runs at a time.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harness.h"
#include "launcher.h"
#include "mpi_paths.h"
#include "mpi_runs.h"
#include "paths.h"
#include "samerun/recorder/store.h"

namespace samerun::launch_test {
namespace {

using namespace samerun::cli;

/// A server that does not come up.
class BrokenWireup : public MpiWireup {
 public:
  std::string version() const override { return "Open MPI 0"; }
  std::vector<RankVariables> begin_job(const std::string&, int, const std::string&) override {
    throw Error(ErrorCode::kLaunch, "the server is broken");
  }
  void end_job(const std::string&) override {}
};

LaunchSpec logged(std::vector<std::string> command, const Bench& bench, const std::shared_ptr<MpiRuns>& mpi) {
  LaunchSpec spec;
  spec.world_size = 2;
  spec.command = std::move(command);
  spec.env["STUB_DIR"] = bench.folder().string();
  spec.to_log = true;
  spec.mpi = mpi;
  return spec;
}

/// One in a process, as a command has it.
std::shared_ptr<MpiRuns> real_mpi() {
  static const auto mpi = std::make_shared<MpiRuns>(open_mpi_wireup(), true);
  return mpi;
}

TEST(WiringTest, ARunThatDidNotAskForMpiGoesOnWithoutItWhereTheServerFails) {
  const Bench bench;
  recorder::Store store(bench.record());
  Launcher launcher(&store);
  const auto mpi = std::make_shared<MpiRuns>(std::make_shared<BrokenWireup>(), false);
  const LaunchResult result = launcher.run(logged({kStubPath, "hello", "env=PMIX_NAMESPACE", "bye"}, bench, mpi));
  const std::string log = read_file(result.log);
  EXPECT_TRUE(result.good()) << result.message;
  EXPECT_NE(log.find("warning: the ranks go without MPI: the server is broken"), std::string::npos) << log;
  EXPECT_NE(log.find("[1] PMIX_NAMESPACE=\n"), std::string::npos) << log;
}

TEST(WiringTest, ARunThatAskedForMpiFailsWhereTheServerFails) {
  const Bench bench;
  recorder::Store store(bench.record());
  Launcher launcher(&store);
  const auto mpi = std::make_shared<MpiRuns>(std::make_shared<BrokenWireup>(), true);
  EXPECT_THROW(launcher.run(logged({kStubPath, "hello", "mark=up", "bye"}, bench, mpi)), Error);
  EXPECT_FALSE(std::filesystem::exists(bench.file("up.0")));
}

TEST(WiringTest, TwoRunsAtATimeAreTwoWorlds) {
  const Bench bench;
  recorder::Store store(bench.record());
  Launcher launcher(&store);
  // Each waits for the other's ranks before it goes on, so both are there at the same time.
  const Words first{kMpiStubPath, "hello", "init", "mark=one", "await=two.0", "await=two.1", "tell", "finalize", "bye"};
  const Words second{kMpiStubPath, "hello", "init", "mark=two", "await=one.0", "await=one.1", "tell", "finalize", "bye"};
  const std::vector<LaunchResult> results = launcher.run({logged(first, bench, real_mpi()), logged(second, bench, real_mpi())});
  for (const LaunchResult& result : results) {
    EXPECT_TRUE(result.good()) << result.failure_text();
    EXPECT_EQ(sorted_lines(read_file(result.log)), (Words{"[0] rank 0 of 2 sums 3", "[1] rank 1 of 2 sums 3"}));
  }
}

TEST(WiringTest, ARunThatFailsLeavesTheOneBesideItAlone) {
  const Bench bench;
  recorder::Store store(bench.record());
  Launcher launcher(&store);
  const Words first{kMpiStubPath, "hello", "init", "mark=one", "barrier", "1:await=two.1", "1:kill", "barrier", "bye"};
  const Words second{kMpiStubPath, "hello", "init", "mark=two", "await=one.0", "await=one.1", "tell", "finalize", "bye"};
  const std::vector<LaunchResult> results = launcher.run({logged(first, bench, real_mpi()), logged(second, bench, real_mpi())});
  EXPECT_EQ(results[0].exit_code, 3);
  EXPECT_TRUE(results[1].good()) << results[1].failure_text();
}

TEST(WiringTest, RunsOneAfterTheOtherShareTheServer) {
  const Bench bench;
  recorder::Store store(bench.record());
  for (int i = 0; i < 3; ++i) {
    Launcher launcher(&store);  // As `pair --resume` has two: its guard is forked beside the server's threads.
    const LaunchResult result = launcher.run(logged({kMpiStubPath, "hello", "init", "tell", "finalize", "bye"}, bench, real_mpi()));
    EXPECT_TRUE(result.good()) << result.failure_text();
    EXPECT_EQ(sorted_lines(read_file(result.log)), (Words{"[0] rank 0 of 2 sums 3", "[1] rank 1 of 2 sums 3"}));
  }
}

}  // namespace
}  // namespace samerun::launch_test
