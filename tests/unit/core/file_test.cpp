#include "samerun/core/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "samerun/core/error.h"

namespace samerun {
namespace {

namespace fs = std::filesystem;

class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    std::string name = (fs::temp_directory_path() / "samerun-file-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }
  fs::path folder_;
};

// A pipe in a file's place (a checkpoint's, say) kept its reader waiting for a writer for ever.
TEST_F(FileTest, APipeInAFilesPlaceIsAnErrorAndNotWaitedFor) {
  const std::string pipe = (folder_ / "manifest.json").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  try {
    read_file(pipe);
    FAIL() << "read a pipe";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kStorage);
  }
}

// Two runs that saved to one folder removed each other's remains at once, and the save that came second failed.
TEST_F(FileTest, TwoMayRemoveOneFolderAtOnce) {
  for (int round = 0; round < 50; ++round) {
    const std::string folder = (folder_ / "old").string();
    fs::create_directory(folder);
    for (int i = 0; i < 40; ++i) std::ofstream(folder + "/" + std::to_string(i)) << i;
    std::atomic<int> ready{0};
    std::string failure;
    const auto remove = [&](std::string* error) {
      ++ready;
      while (ready < 2) {
      }
      try {
        remove_tree(folder);
      } catch (const Error& thrown) {
        *error = thrown.what();
      }
    };
    std::string of_other;
    std::thread other(remove, &of_other);
    remove(&failure);
    other.join();
    ASSERT_EQ(failure + of_other, "");
    ASSERT_FALSE(fs::exists(folder));
  }
}

}  // namespace
}  // namespace samerun
