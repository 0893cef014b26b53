#include "samerun/runtime/accelerator.h"

#include <torch/types.h>

#include <iostream>
#include <utility>

#include "engine.h"
#include "loader_impl.h"
#include "samerun/core/error.h"

namespace samerun {

Accelerator::Accelerator(Options options) : engine_(std::make_unique<detail::Engine>(std::move(options))) {
  if (engine_->options.accumulation_steps.value() < 1) throw Error(ErrorCode::kConfig, "accumulation_steps must be at least 1", {}, rank());
}
Accelerator::~Accelerator() = default;

int Accelerator::rank() const {
  return engine_->launch.rank;
}
int Accelerator::world_size() const {
  return engine_->launch.world_size;
}
int Accelerator::local_rank() const {
  return engine_->launch.local_rank;
}

c10::Device Accelerator::device() const {
  return engine_->compute.device;
}

Loader Accelerator::prepare_loader(std::shared_ptr<Dataset> dataset, const LoaderOptions& options) {
  if (!dataset) throw Error(ErrorCode::kInvalidArgument, "prepare_loader() was given no dataset", {}, rank());
  return Loader(std::make_shared<detail::LoaderImpl>(*engine_, std::move(dataset), options));
}

void Accelerator::prepare_module(std::shared_ptr<torch::nn::Module> module, torch::optim::Optimizer& optimizer) {
  engine_->prepare(std::move(module), optimizer);
}
Optimizer Accelerator::optimizer_handle() {
  return Optimizer(engine_.get());
}
Scheduler Accelerator::scheduler_handle(std::function<void()> advance) {
  return Scheduler(engine_.get(), std::move(advance));
}

Epochs Accelerator::epochs(std::int64_t count) {
  return Epochs(engine_.get(), count);
}

Window Accelerator::accumulate() {
  engine_->enter_window();
  return Window(engine_.get(), engine_->current.last);
}

void Accelerator::backward(const at::Tensor& loss, double weight) {
  engine_->backward(loss, weight);
}
double Accelerator::clip_grad_norm(double max_norm) {
  return engine_->clip(max_norm);
}

void Accelerator::print(const std::string& line) const {
  if (is_main_process()) std::cout << line << std::endl;
}

void Accelerator::log(const std::vector<std::pair<std::string, double>>& values) {
  const auto& current = engine_->current;
  for (const auto& [name, value] : values) {
    Metric metric{engine_->position.optimizer_step, engine_->epoch, name, value, "logged"};
    if (current.valid) metric.purpose = current.purpose;
    engine_->observers().on_metric(metric);
  }
}

bool Accelerator::resuming() const {
  return engine_->resuming();
}
std::string Accelerator::save_state(const std::string& name) {
  return engine_->save_state(name);
}
void Accelerator::load_state(const std::string& folder) {
  engine_->load_state(folder);
}
void Accelerator::register_for_checkpointing(const std::string& name, Stateful& object) {
  engine_->register_state(name, object);
}

Window::~Window() = default;

Epochs::Iterator& Epochs::Iterator::operator++() {
  ++epoch_;
  engine_->epoch = epoch_;
  engine_->epoch_trained = false;
  return *this;
}
bool Epochs::Iterator::operator!=(const Iterator& end) const {
  return epoch_ < end.epoch_ && !engine_->stopping;
}

Epochs::Iterator Epochs::begin() const {
  engine_->epochs_in_use = true;
  engine_->epoch = std::exchange(engine_->first_epoch, 0);  // a later call counts from 0 again
  engine_->epoch_trained = false;
  return Iterator(engine_, engine_->epoch);
}
Epochs::Iterator Epochs::end() const {
  return Iterator(engine_, count_);
}

}  // namespace samerun
