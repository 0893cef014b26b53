#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace samerun::detail {

/// Who this process is among the ranks, and which launcher said so.
struct LaunchInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 0;    ///< Ranks on this host; 0: not known.
  bool wired_for_mpi = false;  ///< MPI_Init would find the other ranks, and not believe that it is alone.
  std::string store_host = "127.0.0.1";
  int store_port = 0;           ///< 0: none was named; MPI can tell the ranks of one host.
  std::optional<int> store_fd;  ///< Listening socket of rank 0.
  int control_fd = -1;
  std::optional<int> threads;
  std::string source = "none";  ///< "samerun launch", "torchrun", "Slurm", "Open MPI", "PMI", "none".
};

/// How this process is to run, as `samerun pair`, `samerun resume` and `samerun resume-check` set it.
struct Mode {
  bool float64 = false;
  int replay_world = 0;  ///< 0: no replay.
  bool whole = false;    ///< The reference takes a window as one batch.
  int variation = 0;     ///< 0: as planned; v >= 1: another legal order.
  std::set<std::int64_t> locked_steps;
  std::string capture_to;
  std::string locked_from;
  std::int64_t locked_of = 0;
  std::int64_t stop_after = 0;  ///< 0: no limit.
  std::int64_t shadow_least = 0, shadow_most = 0;

  // Checkpoints.
  bool checkpoints = true;  ///< False: save_state() writes nothing.
  std::string resume_from, resume_command;
  std::int64_t save_at = -1, save_at_micro = 0;  ///< Save after so many steps and micro-batches of the next window; -1: never.
  std::int64_t kill_at = -1;                     ///< End by SIGKILL after so many steps; -1: never.
  bool poison = false;
  bool load_weights_only = false;

  bool locked(std::int64_t step) const { return locked_steps.count(step) != 0; }
  bool measures() const { return !locked_from.empty(); }
};

/// Reads the launcher's variables: Samerun's own, then torchrun's, Slurm's, Open MPI's, PMI's. Throws kConfig on a
/// contradiction, e.g. a rank without a world size: a rank never believes silently that it is alone.
LaunchInfo read_launch_environment();
Mode read_mode();

/// The rank's line to the launcher. hello() at construction, bye() at a clean end; both do nothing without a launcher.
void say_hello(const LaunchInfo& launch);
void say_bye(const LaunchInfo& launch);

}  // namespace samerun::detail
