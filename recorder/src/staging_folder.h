#pragma once

#include <cstdint>
#include <string>

namespace samerun::recorder {

struct StagingFolder {
  std::string path;
  std::string stored;  ///< As the run row keeps it: relative to the record's folder where it lies inside.
};

/// Makes the staging folder of `run`: inside the record's folder, or in the temporary folder of this host when the
/// record is on a network file system. Throws kStorage.
StagingFolder make_staging_folder(const std::string& record_folder, std::int64_t run, bool network);

}  // namespace samerun::recorder
