#include "part_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> candidates(const Part& part) {
  if (const char* named = std::getenv(part.variable); named != nullptr && *named != '\0') return {named};
  std::error_code ignored;
  const fs::path program = fs::canonical("/proc/self/exe", ignored).parent_path();
  std::vector<std::string> files{(program / part.file).string(), (program / ".." / "lib" / part.file).string()};
  // In the build tree programs lie at several depths.
  for (fs::path above = program; above.has_relative_path(); above = above.parent_path()) {
    const fs::path file = above / "runtime" / part.folder / part.file;
    if (!fs::exists(file, ignored)) continue;
    files.push_back(file.string());
    break;
  }
  files.emplace_back(part.file);
  return files;
}

}  // namespace

void* open_part(const Part& part, std::string& why) {
  for (const auto& path : candidates(part)) {
    void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* text = ::dlerror();
      std::error_code ignored;
      // What is wrong with a file that is there says more than that another is not.
      if (why.empty() || fs::exists(path, ignored)) why = text != nullptr ? text : "unknown reason";
      if (fs::exists(path, ignored)) return nullptr;
      continue;
    }
    if (void* entry = ::dlsym(handle, part.entry); entry != nullptr) return entry;
    throw Error(ErrorCode::kConfig, path + " is not a part of Samerun: it has no " + part.entry + "; remove it or rebuild Samerun");
  }
  return nullptr;
}

}  // namespace samerun::detail
