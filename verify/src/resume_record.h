#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pair_record.h"

namespace samerun::verify {

/// Digests of the training state's leaves, by rank and path.
using Leaves = std::map<std::pair<int, std::string>, Digest>;

/// One point at which a run was saved, killed and resumed.
struct ResumePoint {
  std::string number;  ///< K of the roles.
  std::optional<RunData> saving, resumed, cold;
  std::int64_t steps = -1;  ///< Optimizer steps done when it was saved; -1: the record holds no checkpoint.
  std::int64_t rounds = 0;  ///< Micro-batches of the next window that were done (of each rank).
  std::int64_t killed = 0;  ///< Optimizer steps of the saving run.
  Leaves saved, loaded;

  std::string text() const;  ///< "step 3", "step 3+1".
  bool whole() const { return saving && resumed && steps >= 0; }
};

/// What a resume check left in the record.
struct ResumeRecord {
  const recorder::Reader& reader;
  RunData straight;
  std::vector<ResumePoint> points;

  std::int64_t end() const;  ///< Optimizer steps of the straight run.
};

/// Throws kConfig where the group has no run "straight".
ResumeRecord load_resume(const recorder::Reader& reader, const std::string& group);

}  // namespace samerun::verify
