#pragma once

#include <cstddef>
#include <memory>
#include <string>

/// Changes to the file system, one function a step, each of which a test can fail or die at. All throw kStorage naming the path.
namespace samerun {

enum class FileStep { kMakeFolder, kCreate, kWrite, kSync, kRename, kExchange, kRemove };

/// Called before each step is taken. Null in the product; a test counts the steps, ends the process at one of them, or throws what a
/// full disk would.
extern void (*file_hook)(FileStep step, const std::string& path);

/// A file being written. What finish() has not confirmed may be lost.
class FileWriter {
 public:
  explicit FileWriter(std::string path);  ///< Creates the file, or cuts it to nothing.
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(const void* data, std::size_t size_bytes);
  void finish();  ///< Returns once the contents are on the disk (fsync).

 private:
  std::string path_;
  int fd_ = -1;
};

std::string read_file(const std::string& path);
void make_folder(const std::string& path);                              ///< The parent exists, the folder does not.
void sync_folder(const std::string& path);                              ///< Makes the names in it last.
void rename_path(const std::string& from, const std::string& to);       ///< Replaces a file or an empty folder, as rename(2) does.
void exchange_paths(const std::string& one, const std::string& other);  ///< In one step: no moment at which either name is missing.
void remove_tree(const std::string& path);                              ///< A folder with all that is in it; nothing there is no error.

/// An exclusive lock on a folder, which the kernel gives back when the process ends, however it ends.
class FolderLock {
 public:
  /// Null where another process holds it or the folder is gone.
  static std::unique_ptr<FolderLock> try_lock(const std::string& path);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace samerun
