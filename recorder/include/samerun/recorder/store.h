#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "samerun/recorder/verdict.h"

namespace samerun::recorder {

/// What the launcher knows of a run before it starts.
struct NewRun {
  std::string group_id;  ///< Empty for a run on its own.
  std::string role = "run";
  int world_size = 1;
  std::vector<std::string> argv;
  std::string cwd;
  std::optional<std::int64_t> parent_id;  ///< The run that this one goes on from.
};

/// How one rank ended, as the launcher saw it.
struct RankExit {
  int rank = 0;
  std::optional<int> exit_code;
  std::optional<int> signal;
  std::string stderr_tail;
  bool first_failure = false;
};

/// The project's record, `samerun.db`, open for writing. One object, one connection; write transactions are IMMEDIATE
/// with a busy timeout. A record of an older version is brought up to this one, nothing in it is lost. Threads: not
/// concurrently on one object. Every function throws kStorage naming the file and what to do, or kCorruption; a newer
/// schema is refused and nothing is written.
class Store {
 public:
  /// Opens `folder`/samerun.db, creating folder and file when missing (`.samerun` beside the program's working
  /// directory by default; see default_folder()). Refuses: unwritable folder, newer schema, a file that is not ours.
  explicit Store(const std::string& folder);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  const std::string& folder() const;
  std::string path() const;

  /// Adds the row of a run (status "starting"), with the code version and this host's environment, and returns its id.
  /// Marks as "lost" every run whose launcher is gone (same boot: pid dead; other boot: heartbeat is old).
  std::int64_t begin_run(const NewRun& run);
  /// The staging folder of `run`, created; local to this host.
  std::string staging_folder(std::int64_t run);
  /// Status "running" and a heartbeat.
  void heartbeat(std::int64_t run);
  /// Copies what is new in the run's staging files into the record, in one transaction; safe to repeat at any time and
  /// to interrupt: no row is lost or doubled. Returns the number of rows added.
  std::int64_t fold(std::int64_t run);
  /// Folds for the last time, stores exits and status ("finished", "stopped", "failed"), and removes the staging folder
  /// once its rows are committed. Where the disk is full the status is stored all the same, out of space set aside at the
  /// start, and the staging files stay until a later command can fold them.
  void end_run(std::int64_t run, const std::string& status, int exit_code, const std::string& message, const std::vector<RankExit>& exits);
  /// Folds what crashed runs left behind and marks them "lost". Returns the ids of the runs found.
  std::vector<std::int64_t> sweep();
  std::int64_t add_verdict(const VerdictRow& verdict);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// $SAMERUN_DIR, or `.samerun` in the working directory.
std::string default_folder();

}  // namespace samerun::recorder
