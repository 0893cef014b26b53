#pragma once

#include "reader_file.h"
#include "samerun/recorder/reader.h"

namespace samerun::recorder {

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
