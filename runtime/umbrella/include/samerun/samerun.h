#pragma once

/// All that a training program needs. A program links samerun::samerun and says options_from(argc, argv): that attaches
/// the profiler and the recorder when the launcher asked for a record.

#include "samerun/core/error.h"
#include "samerun/profiler/attach.h"
#include "samerun/recorder/attach.h"
#include "samerun/runtime/accelerator.h"

namespace samerun {

/// Options from the environment, with the observers that the launcher asked for. Throws kConfig, kStorage.
inline Options options_from(int argc, char** argv) {
  Options options = resolve_options(argc, argv);
  profiler::attach_from_env(*options.observers);  // First: the recorder keeps what it tells.
  if (auto recorder = recorder::attach_from_env()) options.observers->add(std::move(recorder));
  return options;
}

}  // namespace samerun
