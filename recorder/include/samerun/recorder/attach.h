#pragma once

#include <memory>

#include "samerun/core/observer.h"

namespace samerun::recorder {

/// The observer that writes this rank's staging file (SAMERUN_STAGING/rank-NNNN.db), or null when SAMERUN_STAGING is
/// unset. One writer thread, a bounded queue, a commit at least once a second; the training thread never waits for
/// more than 50 ms, then rows are counted as dropped and the run's record is marked incomplete.
/// Throws kStorage naming the folder when the staging file cannot be created.
std::shared_ptr<RunObserver> attach_from_env();

}  // namespace samerun::recorder
