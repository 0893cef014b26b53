#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "samerun/core/position.h"
#include "state_tree.h"

namespace samerun::detail {

inline constexpr std::int64_t kCheckpointFormat = 1;
inline constexpr const char* kManifestName = "manifest.json";

struct ManifestFile {
  std::string name;
  std::int64_t bytes = 0;
  std::string sha256;
};

struct ManifestTensor {
  std::string file, name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< Bytes in the file.
  std::string xxh3;                  ///< XXH3-128 of these bytes.
};

/// What one rank has written and hashed; of rank 0 also what the ranks share.
struct RankPart {
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;
  LeafDigests leaves;  ///< Of its own leaves; the shared ones stand in Manifest::shared.
};

/// manifest.json: written last, so a folder that has it has everything.
struct Manifest {
  std::string name;  ///< The folder's.
  std::int64_t saved_utc_ns = 0;
  Position position;
  int world_size = 1;
  std::string libtorch, program, resume_command;
  std::vector<std::vector<std::string>> aliases;  ///< Names of one tensor; the first is the one in the file.
  LeafDigests shared;
  std::vector<RankPart> ranks;

  std::int64_t bytes() const;  ///< Of all files.
  const ManifestFile* find(std::string_view file) const;
};

/// JSON, with the SHA-256 of the text itself (its own 64 digits taken as zeros) under "manifest_sha256".
std::string manifest_text(const Manifest& manifest);
/// Throws kCorruption (not what manifest_text wrote) or kCheckpoint (a newer format).
Manifest parse_manifest(const std::string& text);

std::string rank_part_text(const RankPart& part);
RankPart parse_rank_part(const std::string& text);

}  // namespace samerun::detail
