#include "rank_environment.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

namespace samerun::cli {
namespace {

bool has(const std::vector<std::string>& environment, const std::string& entry) {
  return std::find(environment.begin(), environment.end(), entry) != environment.end();
}

bool names(const std::vector<std::string>& environment, const std::string& name) {
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

TEST(RankEnvironmentTest, TheContractIsOnTopOfWhatIsInherited) {
  ::setenv("OMP_NUM_THREADS", "64", 1);
  ::setenv("SAMERUN_STAGING", "/stale", 1);
  ::setenv("UNTOUCHED", "yes", 1);
  const RankContract contract{4, 2, 1234, "", "", {{"EXTRA", "x"}}, {}, {}};
  const auto environment = rank_environment(contract, 3, -1, 9);
  for (const char* entry : {"SAMERUN_RANK=3", "SAMERUN_WORLD_SIZE=4", "SAMERUN_STORE_PORT=1234", "SAMERUN_CONTROL_FD=9", "OMP_NUM_THREADS=2",
                            "UNTOUCHED=yes", "EXTRA=x"}) {
    EXPECT_TRUE(has(environment, entry)) << entry;
  }
  EXPECT_FALSE(names(environment, "SAMERUN_STAGING"));
  EXPECT_FALSE(names(environment, "SAMERUN_STORE_FD"));
}

TEST(RankEnvironmentTest, RemovedNamesAreGoneUnlessSet) {
  ::setenv("SAMERUN_VARIATION", "1", 1);
  ::setenv("SAMERUN_PRECISION", "native", 1);
  const RankContract contract{1, 1, 1, "5", "/staging", {{"SAMERUN_PRECISION", "float64"}}, {"SAMERUN_VARIATION", "SAMERUN_PRECISION"}, {}};
  const auto environment = rank_environment(contract, 0, 7, 8);
  EXPECT_FALSE(names(environment, "SAMERUN_VARIATION"));
  for (const char* entry : {"SAMERUN_PRECISION=float64", "SAMERUN_RUN_ID=5", "SAMERUN_STAGING=/staging", "SAMERUN_STORE_FD=7"})
    EXPECT_TRUE(has(environment, entry)) << entry;
}

TEST(RankEnvironmentTest, EachRankHasItsOwnVariablesAndTheUsersWin) {
  ::setenv("PMIX_RANK", "9", 1);
  const RankContract contract{2, 1, 1, "", "", {{"PLACE", "mine"}}, {}, {{{"PMIX_RANK", "0"}, {"PLACE", "a"}}, {{"PMIX_RANK", "1"}, {"PLACE", "b"}}}};
  for (const int rank : {0, 1}) {
    const auto environment = rank_environment(contract, rank, -1, 8);
    EXPECT_TRUE(has(environment, "PMIX_RANK=" + std::to_string(rank)));
    EXPECT_TRUE(has(environment, "PLACE=mine"));
  }
}

TEST(RankEnvironmentTest, WhatAnotherMpiLauncherLeftIsDroppedAndTheUsersSettingsAreKept) {
  const std::vector<std::string> dropped{
      "PMIX_NAMESPACE",         "PMI_RANK",           "PMI2_X",         "OMPI_COMM_WORLD_RANK", "OMPI_MCA_orte_hnp_uri",
      "OMPI_MCA_ess_base_vpid", "OMPI_UNIVERSE_SIZE", "JSM_JSRUN_PORT", "MPI_LOCALRANKID",      "OMPI_MCA_pmix"};
  const std::vector<std::string> kept{"OMPI_MCA_btl", "OMPI_MCA_coll_tuned_priority", "OMPI_MCA_mpi_yield_when_idle", "SLURM_JOB_ID", "PMIXER"};
  for (const auto& names_of : {dropped, kept}) {
    for (const std::string& name : names_of) ::setenv(name.c_str(), "x", 1);
  }
  const auto environment = rank_environment({}, 0, -1, 8);
  for (const std::string& name : dropped) EXPECT_FALSE(names(environment, name)) << name;
  for (const std::string& name : kept) EXPECT_TRUE(has(environment, name + "=x")) << name;
}

TEST(RankEnvironmentTest, TheListenerListensOnAPortOfItsOwn) {
  const Listener first = listen_local(), second = listen_local();
  EXPECT_GT(first.port, 0);
  EXPECT_NE(first.port, second.port);
  int listening = 0;
  socklen_t size = sizeof listening;
  ASSERT_EQ(::getsockopt(first.fd.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &size), 0);
  EXPECT_EQ(listening, 1);
}

}  // namespace
}  // namespace samerun::cli
