#include "scratch_folder.h"

#include "samerun/core/error.h"

namespace samerun::cli {

namespace {

void make(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error(ErrorCode::kStorage, "cannot make " + folder.string() + ": " + error.message());
}

}  // namespace

ScratchFolder::ScratchFolder(std::filesystem::path folder, bool keep, const std::vector<std::string>& subfolders)
    : folder_(std::move(folder)), keep_(keep) {
  make(folder_);
  for (const std::string& name : subfolders) make(folder_ / name);
}

ScratchFolder::~ScratchFolder() {
  if (keep_) return;
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  std::filesystem::remove(folder_.parent_path(), ignored);  // If no other command keeps something there.
}

}  // namespace samerun::cli
