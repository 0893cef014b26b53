#include "program.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "samerun/core/error.h"
#include "samerun/core/settings.h"

namespace samerun::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::kConfig, text);
}

bool runnable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> find_in_path(const std::string& name) {
  const char* value = std::getenv("PATH");
  std::istringstream folders(value != nullptr ? value : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path path = fs::path(folder.empty() ? "." : folder) / name;
    if (runnable(path)) return path.string();
  }
  return std::nullopt;
}

/// A runnable file beside the missing one whose name is near.
std::string hint_beside(const fs::path& missing) {
  const fs::path folder = missing.has_parent_path() ? missing.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end && names.size() < 1000; it.increment(error)) {
    if (runnable(it->path())) names.push_back(it->path().filename().string());
  }
  const std::optional<std::string> near = nearest_word(missing.filename().string(), names);
  return near ? "; did you mean " + (folder / *near).string() + "?" : "";
}

void check_kind(const std::string& path) {
  std::array<char, 4> head{};
  std::ifstream file(path, std::ios::binary);
  if (!file) return;  // Executable but not readable: the kernel decides.
  file.read(head.data(), head.size());
  const std::string text(head.data(), static_cast<std::size_t>(file.gcount()));
  if (text.empty()) refuse("program " + path + " is an empty file");
  if (text != "\177ELF" && !text.starts_with("#!")) refuse("program " + path + " is neither an ELF program nor a script with a #! line");
}

std::string resolve_path(const std::string& name) {
  std::error_code error;
  const fs::file_status status = fs::status(name, error);
  if (!fs::exists(status)) refuse("program " + name + " does not exist" + hint_beside(name));
  if (fs::is_directory(status)) refuse("program " + name + " is a folder");
  if (!fs::is_regular_file(status)) refuse("program " + name + " is not a regular file");
  if (::access(name.c_str(), X_OK) != 0) refuse("program " + name + " is not executable; chmod +x " + name);
  return name;
}

}  // namespace

std::string resolve_program(const std::string& name) {
  if (name.empty()) refuse("the program's name is empty");
  std::string path;
  if (name.find('/') != std::string::npos) {
    path = resolve_path(name);
  } else if (const std::optional<std::string> found = find_in_path(name)) {
    path = *found;
  } else if (fs::exists(name)) {
    refuse("program " + name + " is not in PATH; did you mean ./" + name + "?");
  } else {
    refuse("program " + name + " is not in PATH" + hint_beside(name));
  }
  check_kind(path);
  return path;
}

std::string program_name(const std::vector<std::string>& command) {
  return command.empty() ? "" : std::filesystem::path(command.front()).filename().string();
}

}  // namespace samerun::cli
