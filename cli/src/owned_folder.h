#pragma once

#include <filesystem>

#include "fd.h"

namespace samerun::cli {

/// A folder for files that are of use only while this process runs: in the user's own folder, in memory where the system has such a place
/// (/dev/shm/samerun-UID), else in the temporary folder. It is locked while the process lives. One that a killed process left behind is removed
/// when the next is made.
class OwnedFolder {
 public:
  /// Throws kStorage where no place takes it.
  OwnedFolder();
  ~OwnedFolder();
  OwnedFolder(const OwnedFolder&) = delete;
  OwnedFolder& operator=(const OwnedFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Fd lock_;
};

}  // namespace samerun::cli
