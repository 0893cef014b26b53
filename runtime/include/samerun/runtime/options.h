#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "samerun/core/observer.h"
#include "samerun/core/settings.h"

namespace samerun {

/// Settings of a rank's process. Precedence: a value assigned in the program (argument) > environment > default; each
/// keeps its origin, is printed by `samerun show` and stands in the record.
struct Options {
  Setting<std::int64_t> seed;                ///< Model initialisation and random streams. SAMERUN_SEED; default 0.
  Setting<std::int64_t> accumulation_steps;  ///< Micro-batches of one rank in a window. SAMERUN_ACCUMULATION_STEPS; default 1.
  Setting<std::int64_t> timeout_s;           ///< Bound on each collective, seconds. SAMERUN_TIMEOUT_S; default 600.
  Setting<bool> find_unused_parameters;      ///< Look for parameters that a backward pass does not reach; costs a graph walk. Default false.
  Setting<std::int64_t> bucket_bytes;        ///< Size of a gradient bucket, bytes. Default 25 MiB.
  Setting<bool> allow_outside_updates;       ///< Parameters may change outside the optimizer handle. Default false.
  Setting<std::string> device;               ///< "cpu", "cuda" (GPU number local_rank) or "auto". SAMERUN_DEVICE; default "cpu".
  Setting<std::string> backend;              ///< What carries the collectives: "gloo", "mpi", "nccl" or "auto". SAMERUN_BACKEND; default "auto".
  Setting<std::string> checkpoint_dir;       ///< Where save_state() writes. SAMERUN_CHECKPOINT_DIR; default "checkpoints".
  Setting<std::int64_t> total_limit;         ///< Checkpoints kept, the oldest go once a new one is committed; 0: all. Default 0.

  std::vector<std::string> argv;            ///< As given to options_from; empty when built by hand.
  std::shared_ptr<ObserverList> observers;  ///< Never null after resolve_options().
};

/// Options from environment and defaults; attaches no observer (samerun::options_from in samerun/samerun.h does).
/// Throws kConfig naming the variable whose text is wrong.
Options resolve_options(int argc, char** argv);

}  // namespace samerun
