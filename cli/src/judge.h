#pragma once

#include <cstdint>
#include <string>

namespace samerun::recorder {
class Store;
}

namespace samerun::cli {

struct Judging {
  std::string record;  ///< Folder or file.
  std::int64_t candidate = 0, reference = 0;
  bool strict = false, json = false;
};

/// Judges two recorded runs, prints the report on stdout, stores the verdict where the record can be written, and
/// returns the exit code. `store` may be null: one is opened. Throws kConfig, kStorage, kCorruption.
int judge(const Judging& judging, recorder::Store* store);

}  // namespace samerun::cli
