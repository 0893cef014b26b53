// The collectives of c10d over MPI, on real ranks, against what their values must be.
#include <gtest/gtest.h>

#include "harness.h"
#include "paths.h"
#include "ranks.h"

namespace samerun::ranks_test {
namespace {

/// `samerun launch --backend mpi -n RANKS -- backend_fixture MODE`. `message`: the longest message in bytes, 0: as in the product.
Ended run_backend(int ranks, const std::string& mode, int message = 0, int timeout_s = 60) {
  Bench bench;
  if (message > 0) bench.env["SAMERUN_MPI_MESSAGE_BYTES"] = std::to_string(message);
  return bench.run({"launch", "-q", "--no-record", "--backend", "mpi", "--timeout", std::to_string(timeout_s), "-n", std::to_string(ranks), "--",
                    kBackendFixturePath, mode});
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// Every rank made `claims` claims, and all of them hold.
void expect_claims(const Ended& ended, int ranks, int claims) {
  ASSERT_EQ(ended.code, 0) << ended.err << ended.out;
  EXPECT_EQ(count(ended.out, "backend mpi"), 1) << ended.out;
  EXPECT_EQ(count(ended.out, "WRONG"), 0) << ended.out;
  EXPECT_EQ(count(ended.out, "] ok "), ranks * claims) << ended.out;
}

/// Number of ranks, and the longest message: as in the product, or so short that all goes in many pieces.
class MpiBackendTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  void expect(const std::string& mode, int claims) {
    const auto [ranks, message] = GetParam();
    expect_claims(run_backend(ranks, mode, message), ranks, claims);
  }
};

TEST_P(MpiBackendTest, ReducesEveryDtypeByEveryOperatorAtEverySize) {
  expect("reductions", 3 * 64);
}
TEST_P(MpiBackendTest, MovesEveryDtypeAtEverySize) {
  expect("movements", 3 * 12);
}
TEST_P(MpiBackendTest, CarriesCoalescedForms) {
  expect("coalesced", 5);
}
TEST_P(MpiBackendTest, AddsNarrowNumbersInFloat32AndRoundsOnce) {
  expect("narrow", 2);
}
TEST_P(MpiBackendTest, KeepsTheOrderOfIssueWithManyOperationsUnderWay) {
  expect("order", 2);
}
std::string case_name(const testing::TestParamInfo<std::tuple<int, int>>& test) {
  const auto [ranks, message] = test.param;
  return std::to_string(ranks) + "Ranks" + (message > 0 ? "InShortMessages" : "");
}
INSTANTIATE_TEST_SUITE_P(OverRanks, MpiBackendTest, testing::Values(std::tuple(2, 0), std::tuple(3, 0), std::tuple(4, 0), std::tuple(3, 64)),
                         case_name);

TEST(MpiBackend, SendsAndReceivesWhereAllSendFirst) {
  for (const auto& [ranks, message] : {std::pair(2, 0), std::pair(3, 0), std::pair(3, 4096)}) {
    SCOPED_TRACE(ranks);
    const Ended ended = run_backend(ranks, "transfers", message);
    ASSERT_EQ(ended.code, 0) << ended.err << ended.out;
    EXPECT_EQ(count(ended.out, "WRONG"), 0) << ended.out;
    EXPECT_EQ(count(ended.out, "] ok "), 4 * ranks + 1) << ended.out;
  }
}

TEST(MpiBackend, GivesAllRanksTheSameBits) {
  for (const int ranks : {2, 3, 4}) {
    const Ended ended = run_backend(ranks, "bits");
    ASSERT_EQ(ended.code, 0) << ended.err;
    const auto at = ended.out.find("] bits ");
    ASSERT_NE(at, std::string::npos);
    EXPECT_EQ(count(ended.out, ended.out.substr(at, 7 + 32)), ranks) << ended.out;
  }
}

TEST(MpiBackend, RefusesWhatItCannotCarryBeforeAnotherRankIsInvolved) {
  expect_claims(run_backend(2, "refusals"), 2, 8);
}

TEST(MpiBackend, CarriesGroupsOfSomeRanksBesideTheGroupOfAll) {
  for (const int ranks : {2, 3, 4}) expect_claims(run_backend(ranks, "subsets"), ranks, 1);
}

TEST(MpiBackend, NamesTwoRanksThatCallDifferentThings) {
  const Ended ended = run_backend(3, "mismatch");
  ASSERT_EQ(ended.code, 0) << ended.err;
  const std::string reason =
      "the ranks do not call the same collective: rank 0 calls all_reduce (sum, 4 Float), rank 1 calls all_reduce (sum, 5 Float)";
  EXPECT_EQ(count(ended.out, "thrown: " + reason), 3) << ended.out;
  EXPECT_EQ(count(ended.out, "again: " + reason), 3) << "the group stays broken\n" << ended.out;
}

TEST(MpiBackend, NamesTheRankThatHasNotArrivedWhenTimeIsUpAndEndsTheJob) {
  const Ended ended = run_backend(3, "late", 0, 4);
  EXPECT_EQ(ended.code, 3);
  EXPECT_NE(
      ended.err.find("all_reduce (sum, 4 Float), number 2 of this group, timed out after 4 s: rank 2 has not arrived: it was last seen at number 1 "
                     "all_reduce (sum, 4 Float)"),
      std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace samerun::ranks_test
