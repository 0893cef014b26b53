#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "samerun/core/observer.h"
#include "sqlite.h"
#include "staging_queue.h"
#include "staging_rows.h"

namespace samerun::recorder {

struct StagingOptions {
  std::string folder;
  std::int64_t run = 0;
  std::optional<int> rank;  ///< Where the environment tells it; else rows wait for on_rank_start.
  StagingQueue::Limits queue;
  std::chrono::milliseconds end_wait{10'000};
  std::function<void()> before_commit;  ///< For tests: a slow or failing disk. Runs on the writer thread.
};

/// Writes rank-NNNN.db. The training thread copies an event into the queue; the writer thread owns the connection.
/// A write error ends the recording, never the training: one line on stderr, later rows count as dropped, and the
/// rank's row is not marked as ended unless the count of dropped rows can be stored with it.
class StagingWriter final : public RunObserver {
 public:
  explicit StagingWriter(const StagingOptions& options);
  ~StagingWriter() override;  ///< Writes what is left, then joins.

  std::string name() const override { return "recorder"; }
  void on_rank_start(const RankStart& start) override { push(start, StagingQueue::Keep::kAlwaysAndWake); }
  void on_setting(const SettingValue& setting) override { push(setting); }
  void on_environment(const EnvironmentFact& fact) override { push(fact); }
  void on_dataset(const DatasetSeen& dataset) override { push(dataset); }
  void on_shard(const Shard& shard) override { push(shard); }
  void on_step(const Step& step) override { push(step); }
  void on_group_step(const GroupStep& group) override { push(group); }
  void on_tensor(const TensorTrace& trace) override { push(trace); }
  void on_locked(const LockedRow& row) override { push(row); }
  void on_metric(const Metric& metric) override { push(metric); }
  void on_sample_values(const SampleValues& values) override { push(values); }
  void on_phase(const Phase& phase) override { push(phase); }
  void on_run_phase(const RunPhase& phase) override { push(phase); }
  void on_checkpoint(const CheckpointCommitted& checkpoint) override { push(checkpoint); }
  void on_state_leaf(const StateLeaf& leaf) override { push(leaf); }
  void on_event(const RunEvent& event) override;
  /// Returns when all rows are committed, or after 10 s.
  void on_run_end(const RunEnd& end) override;
  void flush() override;  ///< Returns when all rows are committed, or after 10 s, then said on stderr.

  std::int64_t dropped() const { return queue_.dropped(); }
  std::string error() const;  ///< Why recording stopped; empty while it goes well. Threads: any.

 private:
  void push(StagingItem item, StagingQueue::Keep keep = StagingQueue::Keep::kIfRoom) { queue_.push(std::move(item), keep); }
  void start_thread();
  void write_loop();
  void write_batch(std::vector<StagingItem>& batch);
  void give_up(const std::string& why);
  void last_words(std::vector<StagingItem>& batch);  ///< Counts the batch as dropped; if it ends the run, tries to say so.

  const StagingOptions options_;
  Database database_;
  StagingRows rows_;
  StagingQueue queue_;
  std::int64_t dropped_written_ = 0;
  mutable std::mutex error_mutex_;
  std::string error_;
  std::thread thread_;
};

std::string staging_file_name(int rank);  ///< "rank-0003.db"

}  // namespace samerun::recorder
