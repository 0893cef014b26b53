#include "backend.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

/// No file of the ranks' MPI part is there, whatever this build has.
class BackendTest : public testing::Test {
 protected:
  BackendTest() {
    ::setenv("SAMERUN_MPI_LIBRARY", "/nonexistent/libsamerun_mpi.so", 1);
    ::unsetenv("SAMERUN_BACKEND");
  }
};

Setting<std::string> asked(const std::string& word) {
  return {word, Origin::kArgument};
}

std::string failure(const std::function<void()>& call, ErrorCode code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST_F(BackendTest, TheFlagBeatsTheEnvironmentAndThatTheDefault) {
  EXPECT_EQ(resolve_backend_word({}).value(), "auto");
  EXPECT_EQ(resolve_backend_word({}).origin(), Origin::kDefault);
  ::setenv("SAMERUN_BACKEND", "gloo", 1);
  EXPECT_EQ(resolve_backend_word({}).value(), "gloo");
  EXPECT_EQ(resolve_backend_word({}).origin(), Origin::kEnvironment);
  EXPECT_EQ(resolve_backend_word("nccl").value(), "nccl");
  EXPECT_EQ(resolve_backend_word("nccl").origin(), Origin::kArgument);
}

TEST_F(BackendTest, AnUnknownWordInTheEnvironmentIsNamedWithTheKnownOnes) {
  ::setenv("SAMERUN_BACKEND", "smoke", 1);
  const std::string text = failure([] { resolve_backend_word({}); }, ErrorCode::kConfig);
  EXPECT_NE(text.find("SAMERUN_BACKEND is smoke"), std::string::npos) << text;
  EXPECT_NE(text.find("auto, gloo, mpi, nccl"), std::string::npos) << text;
}

TEST_F(BackendTest, MpiThatCannotBeHadIsAnErrorWhereItWasAskedFor) {
  const std::string text = failure([] { find_backend(asked("mpi"), 2); }, ErrorCode::kLaunch);
  EXPECT_NE(text.find("/nonexistent/libsamerun_mpi.so"), std::string::npos) << text;
}

TEST_F(BackendTest, AutoNamesWhatIsUsedInstead) {
  const Backend backend = find_backend({"auto", Origin::kDefault}, 2);
  EXPECT_FALSE(backend.mpi);
  EXPECT_EQ(backend.text(), "backend auto: Gloo (Samerun's MPI part is missing)");
  EXPECT_EQ(backend.environment(), (std::map<std::string, std::string>{{"SAMERUN_BACKEND", "auto"}}));
}

TEST_F(BackendTest, OneRankAndOtherBackendsLookForNoMpi) {
  EXPECT_EQ(find_backend(asked("mpi"), 1).text(), "backend mpi (argument)");
  EXPECT_EQ(find_backend(asked("gloo"), 2).text(), "backend gloo (argument)");
  EXPECT_EQ(find_backend({"nccl", Origin::kEnvironment}, 2).text(), "backend nccl (environment)");
  EXPECT_EQ(find_backend({"gloo", Origin::kFile}, 2).text(), "backend gloo (record)");
  EXPECT_EQ(find_backend({"auto", Origin::kDefault}, 1).text(), "");
}

}  // namespace
}  // namespace samerun::cli
