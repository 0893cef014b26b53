#include "samerun/core/clock.h"

#include <time.h>

namespace samerun {
namespace {

std::int64_t read_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

std::int64_t utc_now_ns() {
  return read_ns(CLOCK_REALTIME);
}
std::int64_t monotonic_now_ns() {
  return read_ns(CLOCK_MONOTONIC);
}

}  // namespace samerun
