#pragma once

#include <cstdint>
#include <string>

namespace samerun::recorder {
class Reader;
}

namespace samerun::cli {

/// The folder of a record that was named by its folder or by its file.
std::string record_folder(const std::string& folder_or_file);

/// Folds what crashed runs left behind and marks them as lost. A record that cannot be written is read as it is.
void refresh_record(const std::string& folder_or_file);

struct TwoRuns {
  std::int64_t candidate = 0, reference = 0;
};

/// Two runs named in any order: the one with the role of a candidate, or else with more ranks, is judged against the other.
/// Throws kConfig when the record lacks one.
TwoRuns in_order(const recorder::Reader& reader, std::int64_t run_a, std::int64_t run_b);

}  // namespace samerun::cli
