#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "communicator.h"

namespace torch::nn {
class Module;
}

namespace samerun::detail {

/// Keeps BatchNorm's running statistics the same on every rank, and the same as one rank's that sees all micro-batches.
///
/// A training forward pass writes running = (1 - m) * running + m * statistic and does not read running. So each micro-batch
/// starts from zeroed statistics, which leaves m * statistic; at the window's end the ranks gather these small vectors and
/// every rank folds them in global batch order: round by round, rank by rank, fillers left out. With momentum nullopt (a plain
/// average) m is 1 / batches so far, and the fold divides by the global count.
/// Outside of begin() .. end() the statistics are whole. A module that is in evaluation mode at begin() keeps them, since its
/// forward pass reads them; if it is set to training after that, its old statistics are taken out of what it left.
class RunningStatistics {
 public:
  RunningStatistics() = default;
  explicit RunningStatistics(torch::nn::Module& module);

  bool empty() const { return layers_.empty(); }
  void begin();           ///< Before the forward pass of a micro-batch.
  void end(bool counts);  ///< After its backward pass, which checks that they were not touched; `counts` is false for a filler.
  void abandon();         ///< Makes the statistics whole where a batch was left between begin() and end().
  /// What the open window's micro-batches left, [micro-batches, values] float64; undefined where there is none.
  at::Tensor pending() const;
  void set_pending(const at::Tensor& contributions);
  /// Folds the window's micro-batches. Collective. Every rank has had equally many since the last fold.
  void fold(Communicator& communicator);

 private:
  struct Layer {
    torch::nn::Module* module = nullptr;
    at::Tensor mean, variance, batches;
    std::optional<double> momentum;
    at::Tensor saved_mean, saved_variance;
    std::int64_t saved_batches = 0;
    bool open = false;    ///< Between begin() and end().
    bool zeroed = false;  ///< The module was in training mode at begin().
  };
  template <class BatchNorm>
  void adopt(torch::nn::Module& module);
  void restore(Layer& layer);
  static at::Tensor brought(const Layer& layer, const at::Tensor& now, const at::Tensor& saved, double passes);
  void fold_one(const at::Tensor& contribution);

  std::vector<Layer> layers_;
  std::vector<at::Tensor> contributions_;  ///< One float64 vector a micro-batch: counted flag, then each layer's number of passes, mean, variance.
};

}  // namespace samerun::detail
