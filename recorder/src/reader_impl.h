#pragma once

#include <cstring>

#include "reader_file.h"
#include "samerun/recorder/reader.h"

namespace samerun::recorder {

inline Digest digest_from(Statement& s) {
  return digest_from_hex(s.text());
}

/// The columns of a position, in the order in which tables have them.
inline Position position_from(Statement& s) {
  Position position;
  position.data_seed = static_cast<std::uint64_t>(s.integer());
  position.epoch = s.integer();
  position.batch_index = s.integer();
  position.micro_step = s.integer();
  position.optimizer_step = s.integer();
  position.samples_seen = s.integer();
  return position;
}

/// Of a float64 blob.
inline std::vector<double> doubles_from(Statement& s) {
  const std::string_view bytes = s.blob();
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

struct Reader::Impl {
  explicit Impl(const std::string& folder_or_file) : file(folder_or_file) {}

  /// Rows of `sql`, whose parameters are `values`, each made by `make` from its columns in order.
  template <class Row, class Make, class... Values>
  std::vector<Row> rows(const char* sql, Make make, const Values&... values) {
    Statement statement(file.database(), sql);
    statement.bind(values...);
    std::vector<Row> result;
    while (statement.step()) result.push_back(make(statement));
    return result;
  }

  ReaderFile file;
};

}  // namespace samerun::recorder
