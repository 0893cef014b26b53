#pragma once

#include <string>
#include <string_view>

namespace samerun::detail {

/// `text` with each run of control characters turned into one space, none at the ends: fit for one line of a log.
std::string one_line(std::string_view text);

}  // namespace samerun::detail
