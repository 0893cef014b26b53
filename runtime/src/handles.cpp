#include "samerun/runtime/handles.h"

#include <torch/optim.h>

#include <algorithm>

#include "engine.h"
#include "optimizer_state.h"
#include "samerun/core/error.h"

namespace samerun {

void Optimizer::step() {
  engine_->step_optimizer();
}
void Optimizer::zero_grad() {
  engine_->zero_gradients();
}
bool Optimizer::step_was_skipped() const {
  return engine_->last_step_skipped;
}

LrSchedule::LrSchedule(torch::optim::Optimizer& optimizer, std::function<double(std::int64_t)> factor)
    : optimizer_(&optimizer), factor_(std::move(factor)) {
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) base_.push_back(detail::learning_rate(optimizer, i));
  apply();
}

void LrSchedule::step() {
  ++position_;
  apply();
}

void LrSchedule::apply() {
  for (std::size_t i = 0; i < base_.size(); ++i) detail::set_learning_rate(*optimizer_, i, base_[i] * factor_(position_));
}

LrSchedule linear_warmup(torch::optim::Optimizer& optimizer, std::int64_t warmup_steps) {
  return LrSchedule(optimizer, [warmup_steps](std::int64_t step) {
    return warmup_steps <= 0 ? 1.0 : std::min(1.0, static_cast<double>(step + 1) / static_cast<double>(warmup_steps));
  });
}

LrSchedule linear_warmup_decay(torch::optim::Optimizer& optimizer, std::int64_t warmup_steps, std::int64_t total_steps) {
  if (warmup_steps < 0 || total_steps <= warmup_steps)
    throw Error(ErrorCode::kInvalidArgument, "a schedule needs 0 <= warmup_steps < total_steps",
                {{"warmup_steps", std::to_string(warmup_steps)}, {"total_steps", std::to_string(total_steps)}});
  return LrSchedule(optimizer, [warmup_steps, total_steps](std::int64_t step) {
    if (step < warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
    return std::max(0.0, static_cast<double>(total_steps - step) / static_cast<double>(total_steps - warmup_steps));
  });
}

Scheduler::Scheduler(detail::Engine* engine, std::function<void()> advance) : engine_(engine) {
  engine_->adopt_schedule(std::move(advance));
}

void Scheduler::step() {
  const bool sync = engine_->at_window_end();
  int times = sync && !engine_->last_step_skipped ? 1 : 0;
  if (engine_->seams.scheduler_steps) times = engine_->seams.scheduler_steps(sync, engine_->plan_world());
  if (times == 0) return;
  const detail::SpanTimer timer(engine_->spans, SpanKind::kOptimizer);
  for (int i = 0; i < times; ++i) engine_->advance_schedule();
}

}  // namespace samerun
