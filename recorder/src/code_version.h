#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace samerun::recorder {

struct CodeVersion {
  std::optional<std::string> head, branch, remote;
  std::optional<bool> dirty;                ///< Tracked files differ from HEAD.
  std::optional<std::string> patch;         ///< git diff --binary HEAD, cut at kMostPatchBytes.
  std::optional<std::string> patch_sha256;  ///< Of the whole patch; empty patch: none.
  std::optional<std::string> untracked;     ///< One path a line, at most kMostUntracked.
  std::string why_null;                     ///< Why fields are missing or cut.
};

inline constexpr std::size_t kMostPatchBytes = std::size_t{1} << 20;
inline constexpr std::size_t kMostUntracked = 1'000;

/// The state of the repository that holds `folder`. Never throws.
CodeVersion read_code_version(const std::string& folder);

}  // namespace samerun::recorder
