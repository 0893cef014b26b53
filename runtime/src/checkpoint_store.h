#pragma once

#include <string>
#include <vector>

#include "communicator.h"
#include "manifest.h"
#include "state_tree.h"

namespace samerun::detail {

/// What is to be saved. The same on all ranks but for the leaves that each rank has of its own.
struct SaveRequest {
  std::string folder;  ///< Where checkpoints lie, absolute.
  std::string name;    ///< Name of this one.
  Manifest header;     ///< Position, program, aliases; lists are filled in here.
  const StateTree* tree = nullptr;
  std::int64_t total_limit = 0;  ///< Checkpoints with a default name kept; 0: all.
};

struct Committed {
  std::string path;
  std::int64_t bytes = 0;
  std::string manifest_sha256;        ///< Of manifest.json as it lies on the disk.
  std::vector<std::string> warnings;  ///< What went wrong after the commit, on rank 0.
};

/// Name of a checkpoint of `step` where the program gives none.
std::string default_checkpoint_name(std::int64_t step);

/// Writes a checkpoint, whole or not at all (README.md, "Checkpoints"). Collective. Throws kCheckpoint alike on every rank; what the folder
/// held before stays.
Committed commit_checkpoint(Communicator& communicator, const SaveRequest& request);

struct Loaded {
  std::string path;
  Manifest manifest;
  StateTree tree;  ///< Shared leaves and this rank's own, in memory of their own.
};

/// Reads and verifies the checkpoint in the folder `path`. Collective. Throws kCheckpoint or kCorruption alike on every rank.
Loaded read_checkpoint(Communicator& communicator, const std::string& path);

/// The newest committed checkpoint below `folder`, "" where there is none. Folders whose manifest does not verify are added to `passed_over`.
std::string newest_checkpoint(const std::string& folder, std::vector<std::string>& passed_over);

}  // namespace samerun::detail
