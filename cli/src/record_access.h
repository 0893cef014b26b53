#pragma once

#include <string>

namespace samerun::cli {

/// The folder of a record that was named by its folder or by its file.
std::string record_folder(const std::string& folder_or_file);

/// Folds what crashed runs left behind and marks them as lost. A record that cannot be written is read as it is.
void refresh_record(const std::string& folder_or_file);

}  // namespace samerun::cli
