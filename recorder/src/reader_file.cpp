#include "reader_file.h"

#include <cstdlib>
#include <filesystem>

#include "samerun/core/error.h"
#include "schema.h"
#include "schema_upgrade.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

std::string file_of(const std::string& folder_or_file) {
  std::error_code error;
  const std::string path = fs::is_directory(folder_or_file, error) ? (fs::path(folder_or_file) / "samerun.db").string() : folder_or_file;
  if (!fs::exists(path, error)) {
    throw Error(ErrorCode::kStorage, "no record at " + path + ": give the folder of the record (usually .samerun), or set SAMERUN_DIR");
  }
  if (fs::file_size(path, error) == 0) throw Error(ErrorCode::kStorage, "record " + path + " is empty: no run has been recorded in it");
  return path;
}

bool has_log(const std::string& path) {
  for (const char* suffix : {"-wal", "-journal"}) {
    std::error_code error;
    const auto size = fs::file_size(path + suffix, error);
    if (!error && size > 0) return true;
  }
  return false;
}

}  // namespace

ReaderFile::ReaderFile(const std::string& folder_or_file) {
  const std::string path = file_of(folder_or_file);
  try {
    open(path);
  } catch (const SqliteError& error) {
    // A file in WAL mode needs side files even to be read: in a folder that we may not write it is read another way.
    if (!error.read_only()) throw;
    database_.reset();
    if (has_log(path)) {
      open_copy(path);
    } else {
      database_ = std::make_unique<Database>(path, Database::Mode::kImmutable);
    }
  }
  const FileState state = check_schema(*database_);
  if (state == FileState::kEmpty) throw Error(ErrorCode::kStorage, "record " + path + " is empty: no run has been recorded in it");
  if (state == FileState::kOlder) stand_in_for_what_is_missing(*database_, FileKind::kRecord);
}

ReaderFile::~ReaderFile() {
  database_.reset();
  std::error_code error;
  if (!copy_folder_.empty()) fs::remove_all(copy_folder_, error);
}

void ReaderFile::open(const std::string& path) {
  database_ = std::make_unique<Database>(path, Database::Mode::kReadOnly);
  database_->integer("PRAGMA user_version");  // The first read opens the side files.
}

// The newest rows are in the log, which cannot be read in place.
void ReaderFile::open_copy(const std::string& path) {
  const char* variable = std::getenv("TMPDIR");
  std::string folder = std::string(variable != nullptr && *variable != '\0' ? variable : "/tmp") + "/samerun-read-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) throw Error(ErrorCode::kStorage, "cannot make a temporary copy of " + path + " in " + folder);
  copy_folder_ = folder;
  const fs::path copy = fs::path(folder) / "samerun.db";
  try {
    fs::copy_file(path, copy);
    for (const char* suffix : {"-wal", "-journal"}) {
      if (fs::exists(path + suffix)) fs::copy_file(path + suffix, copy.string() + suffix);
    }
    fs::permissions(copy, fs::perms::owner_read | fs::perms::owner_write);
    database_ = std::make_unique<Database>(copy.string(), Database::Mode::kReadWrite);
  } catch (const fs::filesystem_error& error) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw Error(ErrorCode::kStorage, "cannot make a temporary copy of " + path + ": " + error.what());
  }
}

}  // namespace samerun::recorder
