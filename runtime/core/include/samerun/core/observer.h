#pragma once

#include <memory>
#include <string>
#include <vector>

#include "samerun/core/event.h"

namespace samerun {

/// Receives what a rank does. Called on the training thread; must copy and return quickly, never communicate.
/// An observer that throws is detached; training goes on and the others are told by on_event.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual std::string name() const = 0;
  virtual void on_rank_start(const RankStart&) {}
  virtual void on_setting(const SettingValue&) {}
  virtual void on_environment(const EnvironmentFact&) {}
  virtual void on_dataset(const DatasetSeen&) {}
  virtual void on_shard(const Shard&) {}
  virtual void on_step(const Step&) {}
  virtual void on_group_step(const GroupStep&) {}
  virtual void on_tensor(const TensorTrace&) {}
  virtual void on_locked(const LockedRow&) {}
  virtual void on_metric(const Metric&) {}
  virtual void on_sample_values(const SampleValues&) {}
  virtual void on_span(const Span&) {}
  virtual void on_phase(const Phase&) {}
  virtual void on_run_phase(const RunPhase&) {}
  virtual void on_checkpoint(const CheckpointCommitted&) {}
  virtual void on_state_leaf(const StateLeaf&) {}
  virtual void on_event(const RunEvent&) {}
  virtual void on_run_end(const RunEnd&) {}
  /// Returns once all that was told before is kept so that a kill of the process cannot take it. Bounded; waits where the
  /// other calls may not.
  virtual void flush() {}
};

/// Fans out to its members in order; owns them. Threads: the training thread only.
class ObserverList final : public RunObserver {
 public:
  void add(std::shared_ptr<RunObserver> observer);  ///< Null is ignored: what attach_from_env() gives when nothing records.
  bool empty() const { return observers_.empty(); }
  std::string name() const override { return "list"; }
  void on_rank_start(const RankStart&) override;
  void on_setting(const SettingValue&) override;
  void on_environment(const EnvironmentFact&) override;
  void on_dataset(const DatasetSeen&) override;
  void on_shard(const Shard&) override;
  void on_step(const Step&) override;
  void on_group_step(const GroupStep&) override;
  void on_tensor(const TensorTrace&) override;
  void on_locked(const LockedRow&) override;
  void on_metric(const Metric&) override;
  void on_sample_values(const SampleValues&) override;
  void on_span(const Span&) override;
  void on_phase(const Phase&) override;
  void on_run_phase(const RunPhase&) override;
  void on_checkpoint(const CheckpointCommitted&) override;
  void on_state_leaf(const StateLeaf&) override;
  void on_event(const RunEvent&) override;
  void on_run_end(const RunEnd&) override;
  void flush() override;

 private:
  template <class Call>
  void each(Call call);
  std::vector<std::shared_ptr<RunObserver>> observers_;
};

}  // namespace samerun
