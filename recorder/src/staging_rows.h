#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "sqlite.h"
#include "staging_queue.h"

namespace samerun::recorder {

/// Turns events into rows of one staging file. All rows carry the rank, so items that come before it is known wait.
/// Call within a transaction. Threads: one at a time.
class StagingRows {
 public:
  StagingRows(Database& database, std::int64_t run, std::optional<int> rank);

  void write(StagingItem& item);  ///< Moved from where it has to wait.
  /// Writes what still waits for a rank, as rank 0.
  void write_waiting();
  void write_dropped(std::int64_t rows);
  int rank() const { return rank_.value_or(0); }

 private:
  void insert(const RankStart& start);
  void insert(const SettingValue& setting);
  void insert(const EnvironmentFact& fact);
  void insert(const DatasetSeen& dataset);
  void insert(const Shard& shard);
  void insert(const Step& step);
  void insert(const GroupStep& group);
  void insert(const TensorTrace& trace);
  void insert(const LockedRow& row);
  void insert(const Metric& metric);
  void insert(const SampleValues& values);
  void insert(const Phase& phase);
  void insert(const RunPhase& phase);
  void insert(const CheckpointCommitted& checkpoint);
  void insert(const StateLeaf& leaf);
  void insert(const StampedEvent& stamped);
  void insert(const RunEnd& end);
  void insert_rank(const std::string& status, std::optional<std::int64_t> steps, const std::string& message);
  std::int64_t tensor_id(const TensorTrace& trace);
  Statement& statement(const std::string& table);

  Database& database_;
  const std::int64_t run_;
  std::optional<int> rank_;
  std::optional<RankStart> start_;
  std::vector<StagingItem> waiting_;
  std::map<std::string, Statement> statements_;
  std::unordered_map<std::string, std::int64_t> tensor_ids_;
};

}  // namespace samerun::recorder
