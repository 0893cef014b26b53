#pragma once

#include <string>

namespace samerun::recorder {

/// Digest of the program file that `name` would start in `cwd` (PATH is searched as execvp does), 32 hex digits; empty
/// when it cannot be read. Never throws.
std::string program_digest(const std::string& name, const std::string& cwd);

}  // namespace samerun::recorder
