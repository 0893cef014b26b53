#include "owned_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <string>

namespace samerun::cli {
namespace {

namespace fs = std::filesystem;

/// A process that makes a folder with a file in it and is killed; the folder.
fs::path left_by_a_killed_process() {
  Pipe pipe = make_pipe();
  const pid_t child = ::fork();
  if (child == 0) {
    const OwnedFolder folder;
    std::ofstream(folder.path() / "file") << "x";
    const std::string text = folder.path().string();
    if (::write(pipe.write.get(), text.data(), text.size()) > 0) ::raise(SIGKILL);
    ::_exit(1);
  }
  pipe.write.reset();
  char text[4096] = "";
  EXPECT_GT(::read(pipe.read.get(), text, sizeof text - 1), 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  return text;
}

TEST(OwnedFolderTest, ItIsTheUsersAloneAndGoesWithItsOwner) {
  fs::path path;
  {
    const OwnedFolder folder;
    path = folder.path();
    struct stat status {};
    ASSERT_EQ(::stat(path.parent_path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
    std::ofstream(path / "file") << "x";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(OwnedFolderTest, WhatAKilledProcessLeftIsRemovedAndWhatIsInUseIsNot) {
  const OwnedFolder used;
  const fs::path left = left_by_a_killed_process();
  EXPECT_NE(left, used.path());
  const OwnedFolder next;
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(used.path()));
}

}  // namespace
}  // namespace samerun::cli
