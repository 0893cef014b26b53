#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "samerun/core/plan.h"
#include "samerun/runtime/loader.h"
#include "worker_pool.h"

namespace samerun::detail {

/// One loader's state: its plan, and the pass under way.
class LoaderImpl {
 public:
  LoaderImpl(Engine& engine, std::shared_ptr<Dataset> dataset, const LoaderOptions& options);
  ~LoaderImpl();

  void start_pass();
  void advance();
  bool at_end() const { return at_end_; }
  Batch& batch() { return batch_; }
  const Plan& plan() const { return plan_; }
  std::int64_t batches();
  std::int64_t steps() const { return plan_.windows(); }

 private:
  Fetched fetch(std::int64_t index) const;
  void hand_over(const Slot& slot, Fetched fetched);
  void end_pass();
  void emit_shard(const Slot& slot, const Digest& contents) const;

  Engine& engine_;
  std::shared_ptr<Dataset> dataset_;
  LoaderOptions options_;
  Plan plan_;
  std::shared_ptr<LoaderProgress> progress_;  ///< Of passes and batches; the engine keeps it in checkpoints.
  std::int64_t epoch_ = 0;
  std::size_t next_ = 0;
  bool at_end_ = true;
  bool recording_ = false;    ///< Of this pass: workers must not look at the observers, which the training thread may detach.
  bool fingerprint_ = false;  ///< This pass adds sample contents to the dataset's digest.
  bool fingerprinted_ = false;
  DatasetSeen seen_;
  std::vector<Slot> slots_;
  Batch batch_;
  std::unique_ptr<WorkerPool> pool_;  ///< Last: its threads read the members above.
};

}  // namespace samerun::detail
