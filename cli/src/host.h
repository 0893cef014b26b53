#pragma once

#include <string>

namespace samerun::cli {

/// Cores that this process may use: its affinity, cut by the control group's quota (rounded up); at least 1.
int usable_cores();
std::string host_name();
/// Colours are wanted on `fd`: a terminal, NO_COLOR unset, TERM not "dumb".
bool wants_color(int fd);

}  // namespace samerun::cli
