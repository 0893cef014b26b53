#pragma once

#include <memory>
#include <string>

#include "sqlite.h"

namespace samerun::recorder {

/// A record opened for reading, wherever it lies.
class ReaderFile {
 public:
  explicit ReaderFile(const std::string& folder_or_file);
  ~ReaderFile();
  ReaderFile(const ReaderFile&) = delete;
  ReaderFile& operator=(const ReaderFile&) = delete;
  Database& database() { return *database_; }

 private:
  void open(const std::string& path);
  void open_copy(const std::string& path);

  std::string copy_folder_;
  std::unique_ptr<Database> database_;
};

}  // namespace samerun::recorder
