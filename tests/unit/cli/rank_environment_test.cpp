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
  const RankContract contract{4, 2, 1234, "", "", {{"EXTRA", "x"}}, {}};
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
  const RankContract contract{1, 1, 1, "5", "/staging", {{"SAMERUN_PRECISION", "float64"}}, {"SAMERUN_VARIATION", "SAMERUN_PRECISION"}};
  const auto environment = rank_environment(contract, 0, 7, 8);
  EXPECT_FALSE(names(environment, "SAMERUN_VARIATION"));
  for (const char* entry : {"SAMERUN_PRECISION=float64", "SAMERUN_RUN_ID=5", "SAMERUN_STAGING=/staging", "SAMERUN_STORE_FD=7"})
    EXPECT_TRUE(has(environment, entry)) << entry;
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
