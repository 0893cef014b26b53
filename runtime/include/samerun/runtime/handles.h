#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
class LRScheduler;
}  // namespace torch::optim

namespace samerun {

namespace detail {
class Engine;
}

/// The prepared optimizer. Inside a window step() and zero_grad() do nothing, so the loop needs no `if`.
class Optimizer {
 public:
  /// At a window's end: steps the optimizer and records the step. Not collective: gradients are replicated.
  /// Throws kInvalidArgument when backward() was not called for this batch, when called twice in a window, or when
  /// parameters changed outside this handle.
  void step();
  /// At a window's end: forgets the gradients (they are reset, not zeroed: they may be views into buckets).
  void zero_grad();
  bool step_was_skipped() const;

 private:
  friend class Accelerator;
  explicit Optimizer(detail::Engine* engine) : engine_(engine) {}
  detail::Engine* engine_;
};

/// A learning-rate schedule: factor(step) times each group's learning rate at construction, step counting optimizer steps from 0.
/// Sets the rate of step 0 at construction. The optimizer must outlive it.
class LrSchedule {
 public:
  LrSchedule(torch::optim::Optimizer& optimizer, std::function<double(std::int64_t)> factor);
  void step();  ///< Advances by one and sets the rates.
  std::int64_t position() const { return position_; }

 private:
  void apply();
  torch::optim::Optimizer* optimizer_;
  std::function<double(std::int64_t)> factor_;
  std::vector<double> base_;
  std::int64_t position_ = 0;
};

/// (step + 1) / warmup up to 1, then constant.
LrSchedule linear_warmup(torch::optim::Optimizer& optimizer, std::int64_t warmup_steps);
/// (step + 1) / warmup up to 1, then linearly down to 0 at total_steps. Throws kInvalidArgument: warmup < 0 or total <= warmup.
LrSchedule linear_warmup_decay(torch::optim::Optimizer& optimizer, std::int64_t warmup_steps, std::int64_t total_steps);

/// The prepared scheduler: once per optimizer step whatever the number of ranks; does nothing inside a window and
/// when the optimizer's step was skipped.
class Scheduler {
 public:
  void step();

 private:
  friend class Accelerator;
  Scheduler(detail::Engine* engine, std::function<void()> advance);
  detail::Engine* engine_;
};

}  // namespace samerun
