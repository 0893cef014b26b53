#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launcher.h"
#include "run_settings.h"

namespace samerun::recorder {
class Reader;
}

namespace samerun::cli {

/// Where a run is saved: after `steps` optimizer steps and `micro_batches` of the next window (of each rank).
struct SavePoint {
  std::int64_t steps = 0, micro_batches = 0;

  std::string text() const;  ///< "3" or "3+1".
  bool operator==(const SavePoint&) const = default;
};

/// Reads "3,3+1,6". Throws kConfig where a word is none, or stands twice.
std::vector<SavePoint> parse_points(const std::string& text);

/// Points within an epoch, within a window (where windows have several micro-batches) and at an epoch's end, from the plan
/// that a recorded run followed. Those that the run has no room for are left out.
std::vector<SavePoint> choose_points(const recorder::Reader& reader, std::int64_t run);

/// What each run of a resume check is started with. All have the same ranks, threads, seed and command.
class ResumePlan {
 public:
  /// `folder`: of the check's checkpoints. `extra`: variables for every run.
  ResumePlan(std::vector<std::string> command, const RunSettings& settings, std::string group, std::filesystem::path folder,
             std::map<std::string, std::string> extra);

  /// Runs `steps`; 0: an epoch and two more, at least 6, at most 200.
  LaunchSpec straight(std::int64_t steps) const;
  /// Saves at the point, goes on, and is killed before `end`, or at it where nothing lies between. `number` from 1.
  LaunchSpec saving(int number, const SavePoint& point, std::int64_t end) const;
  /// New processes that start with other random numbers and poisoned optimizer state, load `checkpoint`, and run to `end`.
  LaunchSpec resumed(int number, const std::string& checkpoint, std::int64_t end) const;
  /// New processes that load the weights alone: they must not pass for the resumed run.
  LaunchSpec cold(int number, const std::string& checkpoint, const SavePoint& point, std::int64_t end) const;

 private:
  LaunchSpec base(const std::string& role) const;
  LaunchSpec loading(const std::string& role, int number, const std::string& checkpoint) const;

  std::vector<std::string> command_;
  RunSettings settings_;
  std::string group_;
  std::filesystem::path folder_;
  std::map<std::string, std::string> extra_;
};

}  // namespace samerun::cli
