#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace samerun::recorder {
class Reader;
}

namespace samerun::cli {

struct RankContract;

/// A committed checkpoint: a folder with a manifest. Whether its bytes are what the manifest says is checked by the ranks.
struct Checkpoint {
  std::string folder;      ///< Absolute.
  std::int64_t step = -1;  ///< Optimizer steps done; -1 where the manifest does not say it.
  std::int64_t saved_utc_ns = 0;
  std::optional<std::int64_t> run;  ///< That wrote it, where the manifest says so.
};

/// Reads `folder`'s manifest. Throws kConfig where there is none, kCorruption where it is not JSON.
Checkpoint read_checkpoint(const std::string& folder);

struct CheckpointSearch {
  std::optional<Checkpoint> newest;
  std::vector<std::string> folders;  ///< In which checkpoints were looked for, the run's own first.
};

/// The newest committed checkpoint of `run`, or else of the runs that it goes on from. `record`: the record's folder.
CheckpointSearch find_checkpoint(const recorder::Reader& reader, const std::string& record, std::int64_t run);

/// "samerun resume 3", with --record-dir where the record is not the default one.
std::string resume_command(const std::string& record, std::int64_t run);

/// "to go on from step 12: samerun resume 3"; empty where the run left no checkpoint.
std::string resume_hint(const std::string& record, std::int64_t run);

/// Tells a recorded run's ranks where checkpoints go, unless the contract or the shell does, and how to go on from them.
void add_checkpoint_variables(const std::string& record, std::int64_t run, RankContract& contract);

}  // namespace samerun::cli
