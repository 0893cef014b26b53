#pragma once

#include "samerun/core/observer.h"

namespace samerun::profiler {

/// Adds the observer that times phases, when the launcher asked for a record (SAMERUN_STAGING). It tells `observers` of each
/// step's Phase and of the run's parts, so it must be added before the observer that keeps them. Threads: the training thread.
void attach_from_env(ObserverList& observers);

}  // namespace samerun::profiler
