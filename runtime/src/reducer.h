#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator.h"
#include "samerun/runtime/options.h"
#include "seams.h"
#include "span.h"
#include "trainable.h"

namespace samerun::detail {

/// Which micro-batch a backward pass belongs to.
struct MicroBatch {
  int accumulator = 0;
  std::int64_t micro_index = 0;
  std::int64_t step = 0;
  bool last = false;             ///< Ends the window: the gradients are reduced.
  double local_denominator = 0;  ///< Sum of this rank's weights in the window so far.
  bool locked = false;           ///< A locked step: report running local gradients, and sum absolute values where measured.
};

/// Running local gradients (undefined = zero) of an accumulator after one of its micro-batches, before any reduction.
using LocalObserver = std::function<void(const std::vector<at::Tensor>& running, const MicroBatch&)>;

/// Accumulates gradients over a window. After the last backward() each parameter's grad is the sum over all
/// micro-batches of all ranks; the caller divides by the sum of weights.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;
  /// Adds the gradient of `loss`. Collective when `micro.last`. Throws kCommunication, kInvalidArgument (parameters without
  /// a gradient on this rank).
  virtual void backward(const at::Tensor& loss, const MicroBatch& micro) = 0;
  /// Forgets the window's gradients.
  virtual void reset() = 0;
  /// The open window's gradients: one list an accumulator, in the order of the parameters, undefined = zero. Shares their memory.
  virtual std::vector<std::vector<at::Tensor>> running() const = 0;
  virtual void set_running(std::vector<std::vector<at::Tensor>> values) = 0;
  /// In which order gradients become ready, by which buckets are cut: part of the state, since the ranks' sum of an element rounds by
  /// where in its bucket it stands. Empty where there are no buckets or none was reduced yet. Collective.
  virtual std::vector<std::int64_t> ready_order() { return {}; }
  virtual void set_ready_order(const std::vector<std::int64_t>&) {}
  /// sum over micro-batches of |g|, float64, per parameter; empty unless the last window was locked and is measured.
  virtual std::vector<at::Tensor> absolute_sums() const { return {}; }
};

struct ReducerOptions {
  std::int64_t bucket_bytes = 25 << 20;
  bool find_unused = false;
  int accumulators = 1;  ///< Virtual ranks of a local reducer.
  int variation = 0;     ///< Order in which a local reducer adds its accumulators.
  bool measure_absolute = false;
  SpanClock* spans = nullptr;  ///< Where given, told of exposed communication; outlives the reducer.
};

/// c10d::Reducer: buckets reduced while backward still runs.
std::unique_ptr<GradientReducer> make_c10d_reducer(const Trainable& model, std::shared_ptr<Communicator> communicator, const ReducerOptions& options,
                                                   const Seams& seams, LocalObserver observe);
/// One process, one accumulator a virtual rank, added in rank order.
std::unique_ptr<GradientReducer> make_local_reducer(const Trainable& model, const ReducerOptions& options, LocalObserver observe);

}  // namespace samerun::detail
