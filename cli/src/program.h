#pragma once

#include <string>
#include <vector>

namespace samerun::cli {

/// The file that `name` stands for, found as a shell would: through PATH unless it has a slash. Throws kConfig saying
/// what is wrong (missing, a folder, not executable, neither an ELF program nor a script) and what may have been meant.
std::string resolve_program(const std::string& name);

/// The last part of a path, for messages.
std::string program_name(const std::vector<std::string>& command);

}  // namespace samerun::cli
