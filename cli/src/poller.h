#pragma once

#include <poll.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace samerun::cli {

/// One round of poll(): descriptors and what to do when each is ready.
class Poller {
 public:
  using Handler = std::function<void()>;

  void add(int fd, short events, Handler handler) {
    fds_.push_back({fd, events, 0});
    handlers_.push_back(std::move(handler));
  }
  /// Wakes at `monotonic_ns` at the latest.
  void wake_at(std::int64_t monotonic_ns) { wake_ns_ = monotonic_ns < wake_ns_ ? monotonic_ns : wake_ns_; }
  /// Waits, then calls the handlers of what is ready.
  void wait();

 private:
  std::vector<pollfd> fds_;
  std::vector<Handler> handlers_;
  std::int64_t wake_ns_ = INT64_MAX;
};

}  // namespace samerun::cli
