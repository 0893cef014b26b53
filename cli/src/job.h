#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher.h"
#include "mpi_runs.h"
#include "poller.h"
#include "process_group.h"
#include "rank_environment.h"

namespace samerun::cli {

/// One run in the launcher's loop: its ranks, their output, its place in the record.
class Job {
 public:
  Job(const LaunchSpec& spec, Guard& guard, recorder::Store* store, Sink& out, Sink& err);

  /// Throws kLaunch, kStorage; the run is then recorded as failed and nothing of it is left running.
  void start();
  /// Kills what runs and records the run as failed, because of something outside it.
  void abandon(const std::string& why);
  /// Adds what this job waits for.
  void watch(Poller& poller);
  /// Some child changed: collects exits, reacts to the first failure.
  void on_child();
  /// Deadlines: folding, killing what ignored SIGTERM, giving up on output.
  void on_time();
  /// The launcher was told to stop; a second time kills at once.
  void stop(int signal);
  bool done() const { return phase_ == Phase::kDone; }
  /// Ends the run in the record. Throws kStorage.
  LaunchResult finish();

 private:
  enum class Phase { kRunning, kStopping, kKilling, kDraining, kDone };

  struct Rank {
    ProcessGroup process;
    LineStream out, err;
    Fd control;
    std::string said;  ///< What came through the control pipe.
    std::optional<ExitStatus> exit;
    bool first_failure = false;

    bool hello() const { return said.starts_with("hello "); }
    bool bye() const { return said.find("bye\n") != std::string::npos; }
  };

  Sink& own_output() { return log_ ? *log_ : err_; }
  void begin_record();
  void open_log();
  void wire_up(RankContract& contract);
  void start_rank(int rank, const std::string& path, const RankContract& contract, int store_fd);
  void read_control(Rank& rank);
  bool failed_rank(const Rank& rank) const;
  void note_first_failure(const std::vector<std::size_t>& failed);
  std::string describe(std::size_t rank) const;
  void signal_all(int signal);
  void begin_stop();
  void kill_all();
  void end_groups();
  void end_output();
  void fold();
  std::string end_status() const;
  std::vector<recorder::RankExit> exits() const;

  LaunchSpec spec_;
  Guard& guard_;
  recorder::Store* store_;
  Sink& out_;
  Sink& err_;
  std::unique_ptr<Sink> log_;
  std::unique_ptr<MpiJob> mpi_;
  std::vector<Rank> ranks_;
  LaunchResult result_;
  Phase phase_ = Phase::kRunning;
  bool fold_failed_ = false;
  std::int64_t started_ns_ = 0, fold_ns_ = INT64_MAX, deadline_ns_ = INT64_MAX;
};

}  // namespace samerun::cli
