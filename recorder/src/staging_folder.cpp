#include "staging_folder.h"

#include <cstdlib>
#include <filesystem>

#include "samerun/core/error.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& folder, const std::string& why) {
  throw Error(ErrorCode::kStorage, "cannot make the staging folder " + folder + " (" + why + "): check its permissions and free space");
}

StagingFolder in_temporary_folder(std::int64_t run) {
  const char* variable = std::getenv("TMPDIR");
  std::string path = std::string(variable != nullptr && *variable != '\0' ? variable : "/tmp") + "/samerun-run-" + std::to_string(run) + "-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) fail(path, "mkdtemp failed");
  return {path, path};
}

}  // namespace

StagingFolder make_staging_folder(const std::string& record_folder, std::int64_t run, bool network) {
  if (network) return in_temporary_folder(run);
  // No common parent folder: who removes it as empty could not tell that another process is about to use it.
  const std::string stored = "staging-run-" + std::to_string(run);
  const fs::path path = fs::absolute(fs::path(record_folder) / stored);  // Ranks may run in another working directory.
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(path.string(), error.message());
  return {path.string(), stored};
}

}  // namespace samerun::recorder
