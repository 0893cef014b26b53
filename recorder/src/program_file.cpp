#include "program_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <sstream>

#include "samerun/core/digest.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

fs::path resolve(const std::string& name, const std::string& cwd) {
  if (name.find('/') != std::string::npos) return fs::path(cwd) / name;
  const char* variable = std::getenv("PATH");
  std::istringstream folders(variable != nullptr ? variable : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path path = fs::path(cwd) / folder / name;
    if (access(path.c_str(), X_OK) == 0 && !fs::is_directory(path)) return path;
  }
  return {};
}

std::string digest_of_file(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::string result;
  struct stat status {};
  if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (data != MAP_FAILED) {
      result = to_hex(digest_bytes(data, size));
      munmap(data, size);
    }
  }
  close(file);
  return result;
}

}  // namespace

std::string program_digest(const std::string& name, const std::string& cwd) {
  try {
    const fs::path path = resolve(name, cwd);
    return path.empty() ? std::string() : digest_of_file(path);
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace samerun::recorder
