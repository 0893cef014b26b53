#pragma once

#include <string>
#include <vector>

#include "options.h"

namespace samerun::cli {

/// Reads the words after the program's own name. Flags may be spelled with - or _. Never throws for what a user typed.
Command parse_command_line(const std::vector<std::string>& words);

}  // namespace samerun::cli
