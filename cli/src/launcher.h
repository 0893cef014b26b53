#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guard.h"
#include "output_mux.h"
#include "samerun/recorder/store.h"
#include "signals.h"

namespace samerun::cli {

class MpiRuns;

/// One run to start.
struct LaunchSpec {
  int world_size = 1;
  std::vector<std::string> command;        ///< Program and arguments, as typed.
  std::map<std::string, std::string> env;  ///< Set in every rank.
  std::vector<std::string> unset;          ///< Removed from the inherited environment.
  int threads = 1;                         ///< Per rank.
  std::string group_id, role = "run";
  bool prefix = false;                          ///< "[rank] " before each line.
  bool to_log = false;                          ///< Output goes to RECORD/logs/RUN.log in place of the terminal.
  std::shared_ptr<MpiRuns> mpi;                 ///< Wires several ranks up for MPI; null: they are not.
  std::optional<std::int64_t> parent_id;        ///< The run that this one goes on from.
  bool ends_by_sigkill = false;                 ///< Each rank kills itself, and that is a good end; any other is a failure.
  std::function<void(std::int64_t run)> begun;  ///< Called once the run stands in the record, before its ranks start.
};

/// How a run ended. A rank's failure is a value here, not an exception.
struct LaunchResult {
  std::int64_t run = 0;  ///< 0: not recorded.
  std::string status;    ///< "finished", "stopped" (reached a step limit), "failed".
  std::string message;   ///< One line; empty when all went well.
  int exit_code = 0;     ///< 0; 3 a rank failed; 128 + signal when the launcher was told to stop.
  std::string log;       ///< Path, when the output went there.
  double wall_seconds = 0;
  std::vector<recorder::RankExit> exits;

  bool good() const { return exit_code == 0; }
  /// `message` and the last stderr lines of the rank that failed first.
  std::string failure_text() const;
};

/// Tells on stderr how a run of `launch` or `resume` ended and how to go on from it; returns the exit code: 3 as well where the
/// record that was asked for lacks rows. `store` null: nothing was recorded.
int finish_launch(const LaunchResult& result, const recorder::Store* store, bool quiet);

/// Starts runs and stays until they end: one poll() loop over output, control pipes, signals and deadlines.
/// Make one per process, before other threads. SIGINT, SIGTERM and SIGHUP stop what runs while it lives.
class Launcher {
 public:
  /// `store` null: nothing is recorded. Throws kLaunch.
  explicit Launcher(recorder::Store* store);

  /// Runs all of `specs` at the same time; results in their order. Throws kLaunch, kStorage when one cannot start;
  /// those that did are stopped and recorded as failed first.
  std::vector<LaunchResult> run(const std::vector<LaunchSpec>& specs);
  LaunchResult run(const LaunchSpec& spec) { return run(std::vector<LaunchSpec>{spec}).front(); }

 private:
  void flush_output();

  recorder::Store* store_;
  Guard guard_;
  Signals signals_;
  Sink out_{1}, err_{2};
};

}  // namespace samerun::cli
