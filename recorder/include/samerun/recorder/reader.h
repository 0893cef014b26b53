#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "samerun/core/event.h"
#include "samerun/recorder/verdict.h"

namespace samerun::recorder {

struct RunRow {
  std::int64_t id = 0;
  std::string group_id, role, cwd, program_digest, status, message, host;
  std::vector<std::string> argv;
  int world_size = 1;
  std::optional<int> exit_code;
  std::int64_t started_utc_ns = 0, heartbeat_utc_ns = 0;
  std::optional<std::int64_t> ended_utc_ns;
  bool complete = false;
  std::optional<std::int64_t> parent_id;  ///< The run that this one goes on from.
};

struct RankRow {
  int rank = 0;
  int world_size = 1;
  std::int64_t pid = 0, steps = -1;
  std::string host, build_id, status, message;
  std::int64_t utc_ns = 0;  ///< When it made its Accelerator.
};

struct RankExitRow {
  int rank = 0;
  std::optional<int> exit_code, signal;
  std::string stderr_tail;
  bool first_failure = false;
};

struct StepRow {
  int rank = 0;
  Step step;
};
struct GroupStepRow {
  int rank = 0;
  GroupStep group;
};
struct ShardRow {
  int rank = 0;  ///< The process's rank; shard.rank is the virtual rank.
  Shard shard;
};
struct DatasetRow {
  int rank = 0;
  DatasetSeen dataset;
};
struct TensorRow {
  int rank = 0;  ///< The process's rank; trace.rank is the virtual rank.
  TensorTrace trace;
};
struct SettingRow {
  int rank = 0;
  SettingValue setting;
};
struct EnvironmentRow {
  int rank = 0;
  EnvironmentFact fact;
};
struct EventRow {
  int rank = 0;
  std::int64_t utc_ns = 0;
  RunEvent event;
};
struct MetricRow {
  int rank = 0;
  Metric metric;
};
struct SampleValuesRow {
  int rank = 0;
  SampleValues values;
};
struct PhaseRow {
  int rank = 0;
  Phase phase;
};
struct RunPhaseRow {
  int rank = 0;
  RunPhase phase;
};
struct CheckpointRow {
  int rank = 0;
  CheckpointCommitted checkpoint;
};
struct StateLeafRow {
  int rank = 0;
  StateLeaf leaf;
};
struct CodeRow {
  std::string head, branch, remote, patch_sha256, untracked, why_null;
  std::optional<bool> dirty;
};

/// Reads a record. Opens read-only; works on a copy, on another host, and beside a running launcher.
/// A record of an older version reads as if what it lacks were empty; it is not written.
/// Throws kStorage (missing, unreadable, newer schema, not a Samerun record), kCorruption (damaged).
/// Threads: not concurrently on one object. NaN and infinities come back as they were stored.
class Reader {
 public:
  explicit Reader(const std::string& folder_or_file);
  ~Reader();
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  std::vector<RunRow> runs() const;  ///< By id. A run whose launcher is gone reads "lost".
  std::optional<RunRow> run(std::int64_t id) const;
  std::vector<RunRow> group(const std::string& group_id) const;  ///< The runs of one pair, by id.
  std::vector<RankRow> ranks(std::int64_t run) const;
  std::vector<RankExitRow> exits(std::int64_t run) const;
  std::vector<SettingRow> settings(std::int64_t run) const;
  std::vector<EnvironmentRow> environment(std::int64_t run) const;
  std::optional<CodeRow> code(std::int64_t run) const;
  std::vector<DatasetRow> datasets(std::int64_t run) const;
  std::vector<ShardRow> shards(std::int64_t run) const;                ///< By purpose, pass, global_batch, rank.
  std::vector<StepRow> steps(std::int64_t run) const;                  ///< By step, rank.
  std::vector<GroupStepRow> group_steps(std::int64_t run) const;       ///< By step, group, rank.
  std::vector<MetricRow> metrics(std::int64_t run) const;              ///< By name, step, rank.
  std::vector<SampleValuesRow> sample_values(std::int64_t run) const;  ///< By purpose, pass, name, rank.
  std::vector<PhaseRow> phases(std::int64_t run) const;                ///< By step, rank.
  std::vector<RunPhaseRow> run_phases(std::int64_t run) const;         ///< By rank, in the order in which they were told.
  std::vector<CheckpointRow> checkpoints(std::int64_t run) const;      ///< By step, rank; the newer of one step last.
  std::vector<StateLeafRow> state_leaves(std::int64_t run) const;      ///< By step, moment, path, rank.
  std::vector<EventRow> events(std::int64_t run) const;
  std::vector<LockedRow> locked(std::int64_t run) const;
  /// Calls `visit` for each tensor row of `stage` ordered by step, tensor name, rank, virtual rank, micro-batch. Streams: memory stays small.
  /// `rank`: rows that this rank's process wrote; without it those of all ranks.
  void tensors(std::int64_t run, const std::string& stage, const std::function<void(const TensorRow&)>& visit,
               std::optional<int> rank = std::nullopt) const;
  std::vector<VerdictRow> verdicts(const std::string& group_id) const;  ///< By age, with their evidence in order.
  std::int64_t dropped_rows(std::int64_t run) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "5,9,12-20" for {5,9,12,...,20}; keeps order, merges only runs that ascend by one.
std::string ids_to_text(const std::vector<std::int64_t>& ids);
std::vector<std::int64_t> ids_from_text(const std::string& text);

}  // namespace samerun::recorder
