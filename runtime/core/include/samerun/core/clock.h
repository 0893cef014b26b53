#pragma once

#include <cstdint>

namespace samerun {

std::int64_t utc_now_ns();        ///< CLOCK_REALTIME, nanoseconds since 1970.
std::int64_t monotonic_now_ns();  ///< CLOCK_MONOTONIC, nanoseconds.

}  // namespace samerun
