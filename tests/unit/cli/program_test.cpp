#include "program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

namespace fs = std::filesystem;

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() {
    std::string pattern = (fs::temp_directory_path() / "samerun-program-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ProgramTest() override { fs::remove_all(folder_); }

  std::string make(const std::string& name, const std::string& text, mode_t mode = 0755) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    ::chmod(path.c_str(), mode);
    return path;
  }
  static std::string refusal(const std::string& name) {
    try {
      return "accepted: " + resolve_program(name);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kConfig);
      return error.what();
    }
  }

  fs::path folder_;
};

TEST_F(ProgramTest, ScriptsAndElfFilesAreTakenAsTheyAreNamed) {
  const std::string script = make("a.sh", "#!/bin/sh\n");
  EXPECT_EQ(resolve_program(script), script);
  EXPECT_EQ(resolve_program("/proc/self/exe"), "/proc/self/exe");
}

TEST_F(ProgramTest, ANameWithoutSlashIsSearchedInPath) {
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  const std::string program = make("only-here", "#!/bin/sh\n");
  make("not-runnable", "#!/bin/sh\n", 0644);
  ::setenv("PATH", ("/nowhere:" + folder_.string()).c_str(), 1);
  EXPECT_EQ(resolve_program("only-here"), program);
  EXPECT_NE(refusal("not-runnable").find("not in PATH"), std::string::npos);
  ::setenv("PATH", path.c_str(), 1);
}

TEST_F(ProgramTest, RefusalsSayWhatIsWrong) {
  make("train", "#!/bin/sh\n");
  EXPECT_NE(refusal((folder_ / "trian").string()).find("did you mean " + (folder_ / "train").string()), std::string::npos);
  EXPECT_NE(refusal(folder_.string() + "/").find("is a folder"), std::string::npos);
  EXPECT_NE(refusal(make("x", "#!/bin/sh\n", 0644)).find("is not executable"), std::string::npos);
  EXPECT_NE(refusal(make("y", "text")).find("neither an ELF program nor a script"), std::string::npos);
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
}

}  // namespace
}  // namespace samerun::cli
