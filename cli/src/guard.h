#pragma once

#include <sys/types.h>

#include "fd.h"

namespace samerun::cli {

/// A small process in a session of its own that outlives the launcher by a moment: when the launcher is gone, however
/// it died, it kills every process group that it was told of. PDEATHSIG alone does not reach the ranks' own children.
class Guard {
 public:
  /// Forks the process. Call before any rank is started. Throws kLaunch.
  Guard();
  /// Tells the process to quit, leaving what runs alone, and waits for it.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// The pipe on which a rank names its own group before it executes its program, see announce().
  int fd() const { return pipe_.get(); }
  /// Async-signal-safe: the forked child calls it, so that no rank ever runs unguarded.
  static void announce(int fd, pid_t group);
  /// The group is empty and its number may be used again by others.
  void forget(pid_t group);

 private:
  Fd pipe_;
  pid_t pid_ = -1;
};

}  // namespace samerun::cli
