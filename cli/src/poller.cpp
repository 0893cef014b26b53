#include "poller.h"

#include <algorithm>

#include "samerun/core/clock.h"

namespace samerun::cli {
namespace {

/// Rounded up, so that a wake is never early and never spins.
int milliseconds_until(std::int64_t wake_ns) {
  if (wake_ns == INT64_MAX) return -1;
  const std::int64_t left = (wake_ns - monotonic_now_ns() + 999'999) / 1'000'000;
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 3'600'000));
}

}  // namespace

void Poller::wait() {
  if (::poll(fds_.data(), fds_.size(), milliseconds_until(wake_ns_)) <= 0) return;
  for (std::size_t i = 0; i < fds_.size(); ++i) {
    if (fds_[i].revents != 0) handlers_[i]();
  }
}

}  // namespace samerun::cli
