#include "sqlite.h"

#include <sqlite3.h>

#include <cmath>
#include <limits>
#include <utility>

namespace samerun::recorder {
namespace {

enum Kind : int { kFinite = 0, kNan = 1, kPlusInfinity = 2, kMinusInfinity = 3 };

Kind kind_of(double value) {
  if (std::isnan(value)) return kNan;
  if (std::isinf(value)) return value > 0 ? kPlusInfinity : kMinusInfinity;
  return kFinite;
}

ErrorCode code_of(int result) {
  const int primary = result & 0xff;
  return primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB ? ErrorCode::kCorruption : ErrorCode::kStorage;
}

std::string advice(int result) {
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return "is damaged or is no SQLite file; nothing was overwritten: keep a copy, then move it away or restore a backup";
    case SQLITE_FULL:
      return "cannot grow, the disk or quota is full: free some space and start again";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return "is kept locked by another process: end it or try again";
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return "cannot be opened as needed: check that file and folder exist and that you may read and write them, or set SAMERUN_DIR";
    case SQLITE_IOERR:
      return "could not be read or written: check the disk, its quota and its free space";
    default:
      return "could not be used; please report this with SQLite's message";
  }
}

std::string uri_of(const std::string& path, Database::Mode mode) {
  std::string uri = "file:";
  for (char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      static constexpr char kHex[] = "0123456789ABCDEF";
      uri += '%';
      uri += kHex[(static_cast<unsigned char>(c) >> 4) & 15];
      uri += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      uri += c;
    }
  }
  return uri + (mode == Database::Mode::kImmutable ? "?immutable=1" : "?mode=ro");
}

}  // namespace

SqliteError::SqliteError(int result, const std::string& file, const std::string& detail)
    : Error(code_of(result), "record file " + file + " " + advice(result), {{"sqlite", detail}}), result_(result), file_(file) {}

bool SqliteError::damaged() const noexcept {
  return code() == ErrorCode::kCorruption;
}
bool SqliteError::busy() const noexcept {
  return (result_ & 0xff) == SQLITE_BUSY || (result_ & 0xff) == SQLITE_LOCKED;
}
bool SqliteError::constraint() const noexcept {
  return (result_ & 0xff) == SQLITE_CONSTRAINT;
}
bool SqliteError::read_only() const noexcept {
  return (result_ & 0xff) == SQLITE_READONLY || (result_ & 0xff) == SQLITE_CANTOPEN;
}

Database::Database(const std::string& path, Mode mode) : path_(path) {
  const bool reads_only = mode == Mode::kReadOnly || mode == Mode::kImmutable;
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= reads_only ? SQLITE_OPEN_READONLY | SQLITE_OPEN_URI : SQLITE_OPEN_READWRITE;
  if (mode == Mode::kCreate) flags |= SQLITE_OPEN_CREATE;
  const int result = sqlite3_open_v2(reads_only ? uri_of(path, mode).c_str() : path.c_str(), &handle_, flags, nullptr);
  if (result != SQLITE_OK) {
    const std::string detail = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
    sqlite3_close(handle_);
    throw SqliteError(result, path, detail);
  }
  busy_timeout(10'000);
  // A record may come from anywhere: its schema must not be able to call functions with side effects.
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_FKEY, 1, nullptr);
}

Database::~Database() {
  sqlite3_close_v2(handle_);
}

void Database::fail(int result) const {
  throw SqliteError(result, path_, sqlite3_errmsg(handle_));
}

void Database::execute(const std::string& sql) {
  const int result = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) fail(result);
}

std::int64_t Database::integer(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.integer() : 0;
}

std::string Database::text(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.step() ? statement.text() : std::string();
}

std::int64_t Database::last_rowid() const {
  return sqlite3_last_insert_rowid(handle_);
}
std::int64_t Database::changes() const {
  return sqlite3_changes64(handle_);
}
void Database::busy_timeout(int milliseconds) {
  sqlite3_busy_timeout(handle_, milliseconds);
}

Statement::Statement(Database& database, std::string_view sql) : database_(&database) {
  check(sqlite3_prepare_v3(database.handle(), sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT, &handle_, nullptr));
}

Statement::~Statement() {
  sqlite3_finalize(handle_);
}

Statement::Statement(Statement&& other) noexcept
    : database_(other.database_),
      handle_(std::exchange(other.handle_, nullptr)),
      next_parameter_(other.next_parameter_),
      next_column_(other.next_column_) {}

void Statement::check(int result) {
  if (result != SQLITE_OK) database_->fail(result);
}

bool Statement::step() {
  next_column_ = 0;
  const int result = sqlite3_step(handle_);
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) return false;
  const SqliteError error(result, database_->path(), sqlite3_errmsg(database_->handle()));
  sqlite3_reset(handle_);
  throw error;
}

void Statement::reset() {
  sqlite3_reset(handle_);  // Reports the error of the step before, which has been thrown already.
  next_parameter_ = 1;
}

void Statement::bind_next(std::int64_t value) {
  check(sqlite3_bind_int64(handle_, next_parameter_++, value));
}

void Statement::bind_next(std::string_view value) {
  const char* data = value.data() != nullptr ? value.data() : "";
  check(sqlite3_bind_text64(handle_, next_parameter_++, data, value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void Statement::bind_next(const Real& value) {
  const Kind kind = kind_of(value.value);
  if (kind == kFinite) {
    check(sqlite3_bind_double(handle_, next_parameter_++, value.value));
  } else {
    bind_next(nullptr);
  }
  bind_next(std::int64_t{kind});
}

void Statement::bind_next(const Blob& value) {
  const void* data = value.data != nullptr ? value.data : "";  // No bytes are not NULL.
  check(sqlite3_bind_blob64(handle_, next_parameter_++, data, value.size_bytes, SQLITE_TRANSIENT));
}

void Statement::bind_next(std::nullptr_t) {
  check(sqlite3_bind_null(handle_, next_parameter_++));
}

std::int64_t Statement::integer() {
  return sqlite3_column_int64(handle_, next_column_++);
}

std::string Statement::text() {
  const int column = next_column_++;
  const unsigned char* data = sqlite3_column_text(handle_, column);
  if (data == nullptr) return {};
  return {reinterpret_cast<const char*>(data), static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

std::optional<std::int64_t> Statement::maybe_integer() {
  if (sqlite3_column_type(handle_, next_column_) != SQLITE_NULL) return integer();
  ++next_column_;
  return std::nullopt;
}

std::optional<int> Statement::maybe_small() {
  const auto value = maybe_integer();
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

double Statement::real() {
  const double value = sqlite3_column_double(handle_, next_column_++);
  switch (integer()) {
    case kFinite:
      return value;
    case kPlusInfinity:
      return std::numeric_limits<double>::infinity();
    case kMinusInfinity:
      return -std::numeric_limits<double>::infinity();
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

std::string_view Statement::blob() {
  const int column = next_column_++;
  const void* data = sqlite3_column_blob(handle_, column);
  return {static_cast<const char*>(data), static_cast<std::size_t>(sqlite3_column_bytes(handle_, column))};
}

Transaction::Transaction(Database& database) : database_(&database) {
  database.execute("BEGIN IMMEDIATE");
}

Transaction::~Transaction() {
  // Fails only when SQLite has rolled back by itself, as it does on a full disk.
  if (open_) sqlite3_exec(database_->handle(), "ROLLBACK", nullptr, nullptr, nullptr);
}

void Transaction::commit() {
  database_->execute("COMMIT");
  open_ = false;
}

}  // namespace samerun::recorder
