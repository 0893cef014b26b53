#include "samerun/core/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "samerun/core/error.h"

namespace samerun {

void (*file_hook)(FileStep step, const std::string& path) = nullptr;

namespace {

void announce(FileStep step, const std::string& path) {
  if (file_hook != nullptr) file_hook(step, path);
}

[[noreturn]] void fail(const std::string& what, const std::string& path, int error = errno) {
  throw Error(ErrorCode::kStorage, what + ": " + std::strerror(error), {{"file", path}});
}

}  // namespace

FileWriter::FileWriter(std::string path) : path_(std::move(path)) {
  announce(FileStep::kCreate, path_);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail("cannot create", path_);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, std::size_t size_bytes) {
  announce(FileStep::kWrite, path_);
  const auto* bytes = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const auto written = ::write(fd_, bytes, size_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write; free some space or choose another folder", path_);
    bytes += written;
    size_bytes -= static_cast<std::size_t>(written);
  }
}

void FileWriter::finish() {
  announce(FileStep::kSync, path_);
  if (::fsync(fd_) != 0) fail("cannot sync", path_);
  if (::close(std::exchange(fd_, -1)) != 0) fail("cannot close", path_);
}

std::string read_file(const std::string& path) {
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);  // first: to open a pipe would wait for its writer
  if (code) fail("cannot read", path, code.value());
  std::ifstream in(path, std::ios::binary);
  if (!in) fail("cannot open", path);
  std::string bytes(size, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (static_cast<std::size_t>(in.gcount()) != size) fail("cannot read to its end", path, EIO);
  return bytes;
}

void make_folder(const std::string& path) {
  announce(FileStep::kMakeFolder, path);
  if (::mkdir(path.c_str(), 0755) != 0) fail("cannot make the folder", path);
}

void sync_folder(const std::string& path) {
  announce(FileStep::kSync, path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail("cannot open the folder", path);
  const int outcome = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  if (outcome != 0) fail("cannot sync the folder", path, error);
}

void rename_path(const std::string& from, const std::string& to) {
  announce(FileStep::kRename, to);
  if (std::rename(from.c_str(), to.c_str()) != 0) fail("cannot rename into place", to);
}

void exchange_paths(const std::string& one, const std::string& other) {
  announce(FileStep::kExchange, other);
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) return;
  if (errno == EINVAL || errno == ENOSYS)
    fail("this file system cannot replace a folder in one step; remove it first, or choose another name", other);
  fail("cannot replace", other);
}

void remove_tree(const std::string& path) {
  announce(FileStep::kRemove, path);
  std::error_code code;
  // Another process may be removing it too: what is gone meanwhile is no error, and the rest is still to go.
  do {
    std::filesystem::remove_all(path, code);
  } while (code == std::errc::no_such_file_or_directory && std::filesystem::exists(path));
  if (code && code != std::errc::no_such_file_or_directory) fail("cannot remove", path, code.value());
}

std::unique_ptr<FolderLock> FolderLock::try_lock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return nullptr;
  }
  return std::unique_ptr<FolderLock>(new FolderLock(fd));
}

FolderLock::~FolderLock() {
  ::close(fd_);
}

}  // namespace samerun
