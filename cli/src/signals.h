#pragma once

#include <csignal>
#include <vector>

#include "fd.h"

namespace samerun::cli {

/// Turns SIGINT, SIGTERM, SIGHUP and SIGCHLD into something to poll, and ignores SIGPIPE, while it lives.
class Signals {
 public:
  Signals();
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_.get(); }
  /// The signals that came since the last call. Never waits.
  std::vector<int> take();

 private:
  Fd fd_;
  sigset_t before_{};
  struct sigaction pipe_before_ {
  }, child_before_{};
};

}  // namespace samerun::cli
