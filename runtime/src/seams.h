#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator.h"
#include "samerun/core/plan.h"
#include "samerun/core/stream.h"
#include "state_tree.h"

namespace torch::optim {
class Optimizer;
}

namespace samerun::detail {

struct WeightContext {
  std::int64_t real = 0;  ///< Rows that count in this micro-batch.
  std::int64_t step = 0;
  int rank = 0;
  int world_size = 1;
  std::int64_t accumulation_steps = 1;
};

struct ScaleContext {
  double denominator = 0;        ///< Sum of all weights of the window.
  double local_denominator = 0;  ///< This rank's part of it.
  std::int64_t rounds = 0;       ///< Micro-batches of this rank in the window.
  std::int64_t accumulation_steps = 1;
  std::int64_t step = 0;
  int rank = 0;
  int world_size = 1;
};

struct ReductionContext {
  double local_denominator = 0;  ///< Sum of this rank's weights in the window.
  std::int64_t step = 0;
  int rank = 0;
  int world_size = 1;
};

struct ClipContext {
  std::vector<at::Tensor>* gradients = nullptr;
  double max_norm = 0;
  std::int64_t step = 0;
  int rank = 0;
  int world_size = 1;
};

struct CheckpointContext {
  std::int64_t step = 0;
  int rank = 0;
  int world_size = 1;
};

struct MetricRows;

struct MetricContext {
  std::string name;
  std::string rule;  ///< MetricRule's word.
  std::int64_t columns = 1;
  int rank = 0;
  int world_size = 1;
};

/// The points where a test puts a fault between the runtime's parts. All are empty in the product: each costs one test
/// of a null function. They see what the product sees and replace what it would have done.
struct Seams {
  std::function<std::shared_ptr<Communicator>(std::shared_ptr<Communicator>)> communicator;
  /// The plan's options as this rank will use them.
  std::function<PlanOptions(PlanOptions, bool training, int rank)> plan;
  /// The batch that this rank is handed.
  std::function<std::optional<BatchRef>(const Plan&, std::int64_t epoch, std::int64_t round, int rank, bool training)> batch;
  std::function<StreamName(StreamName, int rank)> stream;
  /// Called on a worker with what a dataset's random transforms are seeded with, one a row; `index` counts this rank's batches of a pass.
  std::function<void(std::vector<std::uint64_t>& seeds, std::int64_t index, int rank)> sample_seeds;
  std::function<double(double weight, const WeightContext&)> weight;
  std::function<double(double scale, const ScaleContext&)> scale;
  /// Whether this micro-batch ends its window.
  std::function<bool(bool last, std::int64_t rounds_done, std::int64_t accumulation_steps, std::int64_t step)> window_end;
  /// Called with this rank's gradients, the sums of weight times loss, before they are reduced.
  std::function<void(std::vector<at::Tensor>&, const ReductionContext&)> before_reduction;
  /// The same, after reduction and scaling.
  std::function<void(std::vector<at::Tensor>&, const ReductionContext&)> after_reduction;
  /// Replaces the clip; returns the norm.
  std::function<double(const ClipContext&)> clip;
  /// Called with parameters and buffers instead of the broadcast from rank 0.
  std::function<void(std::vector<at::Tensor>&, int rank)> broadcast_model;
  std::function<void(const std::function<void()>& step, std::int64_t number, int rank)> optimizer_step;
  /// How many times the scheduler advances for this call.
  std::function<int(bool sync, int world_size)> scheduler_steps;
  /// The state as a checkpoint will hold it: a leaf may be dropped, or be another's.
  std::function<void(StateTree&, const CheckpointContext&)> state_saved;
  /// The state as it was read and checked, before it is put into the live objects.
  std::function<void(StateTree&, const CheckpointContext&)> state_loaded;
  /// Called after a load, once the live state was found to be the saved one: what goes wrong here, no leaf tells.
  std::function<void(torch::optim::Optimizer&, const CheckpointContext&)> after_load;
  /// Called on rank 0 with the folder of a checkpoint that was just committed.
  std::function<void(const std::string& folder, const CheckpointContext&)> checkpoint_committed;
  /// The batch of the pass at which a loader goes on after load_state().
  std::function<std::int64_t(std::int64_t cursor, const std::string& loader, const CheckpointContext&)> resume_cursor;
  /// May change the rows that a metric is computed from, of each rank in rank order, or give the metric itself.
  std::function<std::optional<double>(std::vector<MetricRows>& by_rank, const MetricContext&)> metric;
};

/// Set by a test program before main(); null in the product.
extern void (*seam_decorator)(Seams&);

}  // namespace samerun::detail
