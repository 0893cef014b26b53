#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "samerun/core/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace samerun::recorder {

/// kStorage or kCorruption with the file, SQLite's own words and what to do. `result`: SQLite's extended result code.
class SqliteError : public Error {
 public:
  SqliteError(int result, const std::string& file, const std::string& detail);
  int result() const noexcept { return result_; }
  const std::string& file() const noexcept { return file_; }
  bool damaged() const noexcept;     ///< The bytes of the file are not a (whole) database.
  bool busy() const noexcept;        ///< Another connection held the lock for the whole busy timeout.
  bool constraint() const noexcept;  ///< The row breaks a rule of the schema.
  bool read_only() const noexcept;   ///< No right or no way to write the file or its side files.

 private:
  int result_;
  std::string file_;
};

/// A double as the record keeps it: two columns, the value (NULL unless finite) and its kind.
struct Real {
  double value;
};

struct Blob {
  const void* data;
  std::size_t size_bytes;
};

/// One connection. Threads: one at a time.
class Database {
 public:
  enum class Mode { kCreate, kReadWrite, kReadOnly, kImmutable };

  Database(const std::string& path, Mode mode);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_; }
  void execute(const std::string& sql);
  std::int64_t integer(const std::string& sql);  ///< First column of the first row; 0 when there is none.
  std::string text(const std::string& sql);
  std::int64_t last_rowid() const;
  std::int64_t changes() const;
  void busy_timeout(int milliseconds);
  [[noreturn]] void fail(int result) const;

 private:
  std::string path_;
  sqlite3* handle_ = nullptr;
};

/// A prepared statement. Bound values are copied; columns are read by position.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  ~Statement();
  Statement(Statement&& other) noexcept;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;

  /// Resets, then binds all parameters from the first; a Real takes two.
  template <class... Values>
  Statement& bind(const Values&... values) {
    reset();
    (bind_next(values), ...);
    return *this;
  }
  /// bind() and step to the end.
  template <class... Values>
  void run(const Values&... values) {
    bind(values...);
    while (step()) {
    }
    reset();
  }

  bool step();  ///< True: a row stands ready. Reading starts again at its first column.
  void reset();
  sqlite3_stmt* handle() const { return handle_; }

  // Each reads the next column of the row.
  std::int64_t integer();
  int small() { return static_cast<int>(integer()); }
  bool flag() { return integer() != 0; }
  std::string text();  ///< NULL reads as "".
  std::optional<std::int64_t> maybe_integer();
  std::optional<int> maybe_small();
  double real();            ///< Two columns: value and kind.
  std::string_view blob();  ///< Valid until the next step().

 private:
  void bind_next(std::int64_t value);
  void bind_next(int value) { bind_next(std::int64_t{value}); }
  void bind_next(bool value) { bind_next(std::int64_t{value}); }
  void bind_next(std::string_view value);
  void bind_next(const std::string& value) { bind_next(std::string_view(value)); }
  void bind_next(const char* value) { bind_next(std::string_view(value)); }
  void bind_next(const Real& value);
  void bind_next(const Blob& value);
  void bind_next(std::nullptr_t);
  template <class T>
  void bind_next(const std::optional<T>& value) {
    if (value) {
      bind_next(*value);
    } else {
      bind_next(nullptr);
    }
  }
  void check(int result);

  Database* database_;
  sqlite3_stmt* handle_ = nullptr;
  int next_parameter_ = 1;
  int next_column_ = 0;
};

/// BEGIN IMMEDIATE; rolled back unless committed. A write transaction that starts as a reader cannot wait for its turn.
class Transaction {
 public:
  explicit Transaction(Database& database);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit();

 private:
  Database* database_;
  bool open_ = true;
};

}  // namespace samerun::recorder
