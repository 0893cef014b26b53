#pragma once

#include <cstdint>
#include <string>

#include "sqlite.h"

namespace samerun::recorder {

/// Where and when a launcher lives, as its run row says.
struct LauncherMark {
  std::int64_t pid = 0;
  std::int64_t pid_start = 0;  ///< Clock ticks since boot at which the process started; 0 when unknown.
  std::string host, boot_id;
  std::int64_t heartbeat_utc_ns = 0;
};

/// Reads the next columns pid, pid_start, host, boot_id, heartbeat_utc_ns.
LauncherMark read_launcher(Statement& row);
LauncherMark this_process();  ///< Heartbeat: now.
/// On this host and boot: no such process (or a zombie, or another process with its number). Elsewhere: no heartbeat
/// for 60 s.
bool launcher_gone(const LauncherMark& mark);

std::string host_name();
std::string boot_id();  ///< Empty when the kernel does not say.

}  // namespace samerun::recorder
