#include <torch/types.h>

#include "reducer.h"

namespace samerun::detail {
namespace {

class LocalReducer final : public GradientReducer {
 public:
  LocalReducer(const Trainable& model, const ReducerOptions& options, LocalObserver observe)
      : model_(model), options_(options), observe_(std::move(observe)), accumulators_(static_cast<std::size_t>(options.accumulators)) {}

  void backward(const at::Tensor& loss, const MicroBatch& micro) override {
    auto& running = accumulators_.at(static_cast<std::size_t>(micro.accumulator));
    running.resize(model_.parameters().size());
    if (micro.locked && options_.measure_absolute) {
      add_measured(loss, running);
    } else {
      add_in_place(loss, running);
    }
    if (micro.locked && observe_) observe_(running, micro);
    if (micro.last) finish();
  }

  void reset() override {
    model_.reset_gradients();
    for (auto& running : accumulators_) running.clear();
    absolute_.clear();
  }

  std::vector<std::vector<at::Tensor>> running() const override { return accumulators_; }
  void set_running(std::vector<std::vector<at::Tensor>> values) override { accumulators_ = std::move(values); }

  std::vector<at::Tensor> absolute_sums() const override { return absolute_; }

 private:
  /// Lets autograd add to the accumulator itself, as it does on a rank of several.
  void add_in_place(const at::Tensor& loss, std::vector<at::Tensor>& running) {
    set_gradients(running);
    loss.backward();
    take_gradients(running);
  }

  /// Keeps the micro-batch's own gradient apart; x + g has the same bits as adding in place.
  void add_measured(const at::Tensor& loss, std::vector<at::Tensor>& running) {
    const torch::NoGradGuard guard;
    std::vector<at::Tensor> own(running.size());
    model_.reset_gradients();
    {
      const at::AutoGradMode grad(true);
      loss.backward();
    }
    take_gradients(own);
    absolute_.resize(running.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (!own[i].defined()) continue;
      const auto magnitude = own[i].abs().to(at::kDouble);
      absolute_[i] = absolute_[i].defined() ? absolute_[i] + magnitude : magnitude;
      running[i] = running[i].defined() ? running[i] + own[i] : own[i];
    }
  }

  void set_gradients(const std::vector<at::Tensor>& values) {
    const auto& parameters = model_.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) at::Tensor(parameters[i].tensor).mutable_grad() = values[i];
  }

  void take_gradients(std::vector<at::Tensor>& values) {
    values = model_.gradients();
    model_.reset_gradients();
  }

  void finish() {
    const torch::NoGradGuard guard;
    std::vector<std::vector<at::Tensor>> parts;
    for (auto& running : accumulators_) {
      if (!running.empty()) parts.push_back(std::move(running));
      running.clear();
    }
    if (options_.variation % 2 == 1) std::reverse(parts.begin(), parts.end());
    set_gradients(options_.variation > 0 && options_.variation % 2 == 0 ? tree_sum(parts) : ordered_sum(parts));
  }

  static void add(std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      if (!from[i].defined()) continue;
      to[i] = to[i].defined() ? to[i].add_(from[i]) : from[i];
    }
  }

  static std::vector<at::Tensor> ordered_sum(std::vector<std::vector<at::Tensor>>& parts) {
    for (std::size_t k = 1; k < parts.size(); ++k) add(parts[0], parts[k]);
    return parts.at(0);
  }

  static std::vector<at::Tensor> tree_sum(std::vector<std::vector<at::Tensor>>& parts) {
    for (std::size_t stride = 1; stride < parts.size(); stride *= 2) {
      for (std::size_t k = 0; k + stride < parts.size(); k += 2 * stride) add(parts[k], parts[k + stride]);
    }
    return parts.at(0);
  }

  const Trainable& model_;
  ReducerOptions options_;
  LocalObserver observe_;
  std::vector<std::vector<at::Tensor>> accumulators_;
  std::vector<at::Tensor> absolute_;
};

}  // namespace

std::unique_ptr<GradientReducer> make_local_reducer(const Trainable& model, const ReducerOptions& options, LocalObserver observe) {
  return std::make_unique<LocalReducer>(model, options, std::move(observe));
}

}  // namespace samerun::detail
