#pragma once

#include <cstdint>
#include <string>

namespace samerun::recorder {
class Store;
}
namespace samerun::verify {
struct Report;
}

namespace samerun::cli {

struct Judging {
  std::string record;  ///< Folder or file.
  std::int64_t candidate = 0, reference = 0;
  bool strict = false, json = false;
  bool html = false;   ///< Write the report at its place in the record,
  bool quiet = false;  ///< and do not say on stderr where.
};

/// Prints `text` on stdout, stores the report as a verdict where the record can be written, and returns the exit code.
/// `record`: folder or file. `store` may be null: one is opened.
int tell(const verify::Report& report, const std::string& text, const std::string& record, recorder::Store* store);

/// Judges two recorded runs, prints the report on stdout, stores the verdict where the record can be written, and
/// returns the exit code. `store` may be null: one is opened. Throws kConfig, kStorage, kCorruption.
int judge(const Judging& judging, recorder::Store* store);

}  // namespace samerun::cli
