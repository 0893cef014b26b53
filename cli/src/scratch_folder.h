#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace samerun::cli {

/// A folder for files that are large and of no use once a command has ended: removed with all in it, and the folder that
/// holds it when that is empty then, unless kept. Made with its `subfolders`. Throws kStorage where it cannot be made.
class ScratchFolder {
 public:
  ScratchFolder(std::filesystem::path folder, bool keep, const std::vector<std::string>& subfolders = {});
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return folder_; }

 private:
  std::filesystem::path folder_;
  bool keep_;
};

}  // namespace samerun::cli
