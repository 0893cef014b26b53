#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "backend.h"
#include "options.h"
#include "samerun/core/settings.h"

namespace samerun::cli {

/// What `launch` and `pair` share, resolved: flag, else environment, else default. Unset: the program's own default.
struct RunSettings {
  Setting<std::int64_t> ranks, threads;
  std::optional<Setting<std::int64_t>> timeout_s;
  std::optional<Setting<std::string>> seed;
  Backend backend;
  Setting<std::string> record_dir;

  /// "ranks 4 (argument), threads 1 (default), ...", without the record.
  std::string text() const;
  /// What the ranks read of it.
  std::map<std::string, std::string> environment() const;
};

/// Throws kConfig naming the variable when the environment's text is not a number in range, or no backend; kLaunch where backend mpi was asked
/// for and cannot be had.
RunSettings resolve_run(const RunFlags& flags, std::int64_t default_ranks);
/// The record's folder: the flag, SAMERUN_DIR, or `.samerun` in the working directory.
Setting<std::string> resolve_record_dir(const std::optional<std::string>& flag);

/// "4 (argument)".
std::string with_origin(const std::string& value, Origin origin);

}  // namespace samerun::cli
