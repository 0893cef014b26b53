#include "owned_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

namespace fs = std::filesystem;

/// An open folder, locked unless another process has the lock. The lock goes with the process, however it ends.
Fd lock_folder(const fs::path& folder) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.open() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) fd.reset();
  return fd;
}

bool removed(const Fd& folder) {
  struct stat status {};
  return ::fstat(folder.get(), &status) != 0 || status.st_nlink == 0;
}

/// Makes the user's folder, or finds it; false where it cannot be trusted with files.
bool prepare(const fs::path& parent) {
  if (::mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST) return false;
  struct stat status {};
  if (::lstat(parent.c_str(), &status) != 0) return false;
  return S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & 077) == 0;
}

/// What has no owner any more.
void sweep(const fs::path& parent) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
    const Fd lock = lock_folder(entry.path());
    if (lock.open()) fs::remove_all(entry.path(), ignored);
  }
}

std::vector<fs::path> parents() {
  const std::string name = "samerun-" + std::to_string(::geteuid());
  std::error_code ignored;
  return {fs::path("/dev/shm") / name, fs::temp_directory_path(ignored) / name};
}

}  // namespace

OwnedFolder::OwnedFolder() {
  for (const fs::path& parent : parents()) {
    if (!prepare(parent)) continue;
    sweep(parent);
    // Another process may sweep it away before it is locked.
    for (int attempt = 0; attempt < 10; ++attempt) {
      std::string folder = (parent / (std::to_string(::getpid()) + "-XXXXXX")).string();
      if (::mkdtemp(folder.data()) == nullptr) break;
      lock_ = lock_folder(folder);
      path_ = folder;
      if (lock_.open() && !removed(lock_)) return;
    }
  }
  throw Error(ErrorCode::kStorage, "cannot make a folder in " + parents().front().string() + " or " + parents().back().string() +
                                       ": each must be a folder of this user alone, with room in it (" + std::strerror(errno) + ")");
}

OwnedFolder::~OwnedFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace samerun::cli
