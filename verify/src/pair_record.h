#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "samerun/recorder/reader.h"
#include "samerun/verify/verify.h"

namespace samerun::verify {

/// What the record holds of one run, but for its tensors, which are streamed where they are needed.
struct RunData {
  recorder::RunRow run;
  std::vector<recorder::RankRow> ranks;
  std::vector<recorder::SettingRow> settings;
  std::vector<recorder::DatasetRow> datasets;
  std::vector<recorder::ShardRow> shards;           ///< By purpose, pass, global batch, rank.
  std::vector<recorder::StepRow> steps;             ///< By step, rank.
  std::vector<recorder::GroupStepRow> group_steps;  ///< By step, group, rank.
  std::vector<LockedRow> locked;
  std::vector<recorder::EventRow> events;
  std::int64_t dropped = 0;

  std::int64_t id() const { return run.id; }
  int world() const { return run.world_size; }
  /// False where rows may be missing: then what is not there proves nothing.
  bool whole_record() const { return run.complete && dropped == 0; }
  /// Rank 0's value of a setting; empty when it is not in the record.
  std::string setting(const std::string& key) const;
  /// The same of a loader: "<purpose>.<key>", or else "<key>".
  std::string setting(const std::string& purpose, const std::string& key) const;
  /// Text of the first event of a kind; empty when there is none.
  std::string event(const std::string& kind) const;
  /// True where one process stands in for `world_size` ranks, batch by batch.
  bool replays(int world_size) const { return setting("replay_world") == std::to_string(world_size); }
  /// Rank 0's step rows, in order.
  std::vector<const Step*> first_rank_steps() const;
  /// Names of every purpose that a loader had.
  std::vector<std::string> purposes() const;
  std::int64_t dataset_size(const std::string& purpose) const;  ///< Rank 0's; -1 when it is not in the record.
};

RunData load_run(const recorder::Reader& reader, const recorder::RunRow& row, bool with_shards);

/// A candidate and the reference that ran in the same precision.
struct Arm {
  std::string name;  ///< "native" or "float64": how findings call it.
  RunData candidate, reference;
};

/// All runs that a verdict rests on.
struct PairRecord {
  const recorder::Reader& reader;
  Arm native;
  std::optional<Arm> shadow;        ///< Their float64 shadows, where the group has both.
  std::string shadow_missing;       ///< Why not, in words.
  std::vector<RunData> reruns;      ///< Legal re-executions of the shadow reference.
  bool one_group = false;           ///< The runs were planned together.
  bool whole_reference = false;     ///< The reference takes a step's samples as one micro-batch.
  bool same_micro_batches = false;  ///< Global batch i holds the same samples in both runs by plan.

  std::vector<const Arm*> arms() const;
};

/// Throws kConfig when a run is not in the record.
PairRecord load_pair(const recorder::Reader& reader, std::int64_t candidate, std::int64_t reference);

/// "run 12 (candidate, 4 ranks)".
std::string run_name(const RunData& run);

}  // namespace samerun::verify
