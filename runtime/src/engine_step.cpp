// The part of Engine that handles windows and steps.

#include <torch/optim.h>
#include <torch/types.h>

#include <array>
#include <cmath>
#include <cstring>

#include "capture.h"
#include "engine.h"
#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

[[noreturn]] void misuse(const std::string& text, int rank) {
  throw Error(ErrorCode::kInvalidArgument, text, {}, rank);
}

}  // namespace

void Engine::enter_window() {
  if (!prepared()) misuse("accumulate() comes after prepare(model, optimizer, ...)", rank());
  if (!current.valid || !current.training)
    misuse("accumulate() handles the current batch of a training loader: call it inside `for (auto& batch : loader)`", rank());
  if (current.entered) misuse("accumulate() was entered twice for one batch: call it once per batch, around forward and backward", rank());
  current.entered = true;
}

void Engine::count_batch(const at::Tensor& loss, double weight) {
  const double value = weight == 0 ? 0 : loss.item<double>();
  window.numerator += weight * value;
  window.absolute_numerator += std::abs(weight * value);
  window.denominator += weight;
  window.local_denominator += weight;
  window.samples += current.real;
  window.micro_batches += 1;
  window.local_rounds += 1;
}

void Engine::backward(const at::Tensor& loss, double weight) {
  if (!prepared()) misuse("backward() comes after prepare(model, optimizer, ...)", rank());
  if (!current.valid || !current.training)
    misuse("backward() needs the current batch of a training loader: call it inside `for (auto& batch : loader)`", rank());
  if (current.backward) misuse("backward() was called twice for one batch: add the losses and call it once", rank());
  if (!loss.defined() || loss.numel() != 1) misuse("backward() takes a scalar loss: reduce it with a mean over the batch first", rank());
  if (!loss.requires_grad())
    misuse("the loss does not depend on a trained parameter: compute it from the model's output, outside of NoGradGuard and without detach()",
           rank());
  if (std::isnan(weight)) weight = static_cast<double>(current.real);
  if (!std::isfinite(weight) || weight < 0)
    misuse("the weight of a loss must be a finite number of at least 0, not " + std::to_string(weight), rank());
  if (current.slot.batch.filler) weight = 0;  // whatever the program counts in its rows
  if (seams.weight) weight = seams.weight(weight, {current.real, position.optimizer_step, rank(), plan_world(), options.accumulation_steps.value()});
  current.backward = true;
  if (window.local_rounds == 0) reducer_->reset();  // on several ranks a forgotten zero_grad() would add to the old gradients
  note_whole_reference();
  count_batch(loss, weight);
  const auto step = position.optimizer_step;
  const MicroBatch micro{current.slot.accumulator,
                         current.slot.micro_index,
                         step,
                         current.last,
                         window.local_denominator,
                         recording() && mode.locked(step) && mode.variation == 0 && !mode.whole};
  const auto weighted = loss * weight;
  try {
    if (micro.last) {
      reduce_window(weighted, micro);
    } else {
      reducer_->backward(weighted, micro);
      spans.close_compute();
      statistics_.end(!current.slot.batch.filler);
    }
  } catch (const Error&) {
    throw;
  } catch (const c10::DistError& error) {
    rethrow_communication(error, "backward()", rank());
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw Error(ErrorCode::kTorch, "backward() failed: " + text.substr(0, text.find('\n')), {{"step", std::to_string(step)}}, rank());
  } catch (const std::exception& error) {
    if (launch.world_size == 1) throw;
    rethrow_communication(error, "backward()", rank());  // Gloo's own errors are plain runtime errors
  }
}

/// The window's sums travel while backward runs; the gradients are divided when both have arrived.
void Engine::reduce_window(const at::Tensor& loss, const MicroBatch& micro) {
  auto sums = at::empty({4}, at::kDouble);
  auto* values = sums.data_ptr<double>();
  values[0] = window.numerator;
  values[1] = window.denominator;
  values[2] = static_cast<double>(window.samples);
  values[3] = static_cast<double>(window.micro_batches);
  auto pending = communicator->all_reduce(sums, Reduction::kSum);
  reducer_->backward(loss, micro);
  spans.close_compute();
  statistics_.end(!current.slot.batch.filler);
  {
    const SpanTimer timer(spans, SpanKind::kExposed);
    pending.wait();
  }
  window.numerator = values[0];
  window.denominator = values[1];
  window.samples = static_cast<std::int64_t>(values[2]);
  window.micro_batches = static_cast<std::int64_t>(values[3]);
  if (window.denominator == 0) misuse("all weights of the window are 0: there is nothing to divide by", rank());
  double scale = 1.0 / window.denominator;
  if (seams.scale) {
    scale = seams.scale(scale, {window.denominator, window.local_denominator, window.local_rounds, options.accumulation_steps.value(), micro.step,
                                rank(), plan_world()});
  }
  const torch::NoGradGuard guard;
  {
    const SpanTimer timer(spans, SpanKind::kCompute);
    scale_gradients(scale, micro.step);
  }
  {
    const SpanTimer timer(spans, SpanKind::kExposed);
    statistics_.fold(*communicator);
  }
  window.reduced = true;
  capture_gradients(stage::kRaw);
}

/// All gradients times one factor.
void Engine::scale_gradients(double scale, std::int64_t step) {
  std::vector<at::Tensor> present;
  for (auto& gradient : model_.gradients()) {
    if (gradient.defined()) present.push_back(gradient);
  }
  at::_foreach_mul_(present, scale);
  if (seams.after_reduction) seams.after_reduction(present, {window.local_denominator, step, rank(), launch.world_size});
}

double Engine::clip(double max_norm) {
  if (!at_window_end())
    misuse("clip_grad_norm() inside a window: the gradients are not complete; write `if (window.sync_gradients()) accelerator.clip_grad_norm(...)`",
           rank());
  if (!window.reduced) misuse("clip_grad_norm() comes after backward()", rank());
  if (!(max_norm > 0)) misuse("clip_grad_norm() takes a limit above 0", rank());
  const SpanTimer timer(spans, SpanKind::kOptimizer);
  const torch::NoGradGuard guard;
  std::vector<at::Tensor> present;
  for (auto& gradient : model_.gradients()) {
    if (gradient.defined()) present.push_back(gradient);
  }
  window.clip_max = max_norm;
  if (seams.clip) {
    window.norm = seams.clip({&present, max_norm, position.optimizer_step, rank(), plan_world()});
    window.clip_factor = std::min(1.0, max_norm / (window.norm + 1e-6));
    return window.norm;
  }
  double square = 0;
  for (const auto& gradient : present) square += std::pow(norm_of(gradient), 2);
  window.norm = std::sqrt(square);
  // torch's form: the small number keeps a zero norm from dividing by zero.
  window.clip_factor = std::min(1.0, max_norm / (window.norm + 1e-6));
  if (!(window.clip_factor == 1.0)) at::_foreach_mul_(present, window.clip_factor);
  return window.norm;
}

void Engine::step_optimizer() {
  if (!prepared() || !current.valid || !current.training) misuse("the optimizer's step() belongs inside the training loop, after backward()", rank());
  if (!current.backward) misuse("step() without backward() for this batch: call accelerator.backward(loss) first", rank());
  if (!current.last) return;
  if (!window.reduced) misuse("step() was called twice in one window: call it once per batch", rank());
  const SpanTimer timer(spans, SpanKind::kOptimizer);
  const torch::NoGradGuard guard;
  check_outside_updates();
  if (recording()) {
    const SpanTimer recording_timer(spans, SpanKind::kRecording);
    capture_gradients(stage::kClipped);
    copy_parameters();
  }
  groups_ = group_settings(*optimizer_, position.optimizer_step);
  if (recording()) {
    step_.root_before = root_before_;
    step_.root_moments_before = root_moments_before_;
    if (capture_.active) {
      capture_.before = clone_all(before_);
      capture_.states_before = clone_all(parameter_states(*optimizer_, model_.parameters()));
    }
  }
  const auto step = [this] {
    const at::AutoGradMode grad(true);
    optimizer_->step();
  };
  if (seams.optimizer_step) {
    seams.optimizer_step(step, position.optimizer_step, rank());
  } else {
    step();
  }
  remember_parameters();
  finish_step();
}

/// The parameters as the step finds them, into the same memory every step: getting new memory costs more than the copy.
void Engine::copy_parameters() {
  const auto& parameters = model_.parameters();
  before_.resize(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto now = parameters[i].tensor.detach();
    auto& copy = before_[i];
    if (copy.defined() && copy.scalar_type() == now.scalar_type() && copy.sizes() == now.sizes() && copy.strides() == now.strides()) {
      copy.copy_(now);
    } else {
      copy = now.clone();
    }
  }
}

/// Traces of the gradients as they stand. "clipped" takes over what "raw" measured where the bits are the same.
void Engine::capture_gradients(const char* stage_name) {
  if (!recording()) return;
  const SpanTimer timer(spans, SpanKind::kRecording);
  const bool is_raw = std::string(stage_name) == stage::kRaw;
  const auto step = position.optimizer_step;
  if (is_raw) {
    step_ = {};
    raw_traces_.clear();
    capture_ = {};
    capture_.active = mode.locked(step) && rank() == 0 && mode.variation == 0 && (!mode.capture_to.empty() || mode.measures());
  }
  const auto& parameters = model_.parameters();
  const auto absolute = is_raw ? reducer_->absolute_sums() : std::vector<at::Tensor>{};
  std::vector<Digest> digests;
  std::vector<at::Tensor> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& gradient = parameters[i].tensor.grad();
    values.push_back(gradient.defined() ? gradient : at::zeros_like(parameters[i].tensor));
    TensorTrace trace;
    if (!is_raw && digest_of(values[i]) == raw_traces_[i].digest) {
      trace = raw_traces_[i];
      trace.stage = stage_name;
      trace.abs_norm = -1;
    } else {
      trace = trace_of(parameters[i].name, values[i], {stage_name, step, rank(), -1, rank() == 0, rank() == 0});
    }
    if (i < absolute.size() && absolute[i].defined()) trace.abs_norm = norm_of(absolute[i]) / window.denominator;
    digests.push_back(trace.digest);
    observers().on_tensor(trace);
    if (is_raw) raw_traces_.push_back(std::move(trace));
  }
  (is_raw ? step_.root_raw : step_.root_clipped) = digest_list(digests);
  if (capture_.active) (is_raw ? capture_.raw : capture_.clipped) = clone_all(values);
}

void Engine::finish_step() {
  const auto step = position.optimizer_step;
  position.optimizer_step += 1;
  position.micro_step += window.local_rounds;
  position.samples_seen += window.samples;
  if (recording()) record_step(step);
  window = {};
  check_stop();
  check_kill();
}

/// Update, state and the step's own row.
void Engine::record_step(std::int64_t step) {
  const SpanTimer timer(spans, SpanKind::kRecording);
  const auto& parameters = model_.parameters();
  std::vector<Digest> updates, states;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto& update = before_[i];  // takes the copy's place
    at::sub_out(update, parameters[i].tensor, update);
    auto trace = trace_of(parameters[i].name, update, {stage::kUpdate, step, rank(), -1, rank() == 0, false});
    updates.push_back(trace.digest);
    if (rank() == 0) observers().on_tensor(trace);
  }
  for (const auto& item : model_.state()) {
    auto trace = trace_of(item.name, item.tensor, {stage::kState, step, rank(), -1, false, false});
    states.push_back(trace.digest);
    observers().on_tensor(trace);
  }
  step_.root_update = digest_list(updates);
  step_.root_after = digest_list(states);
  const auto after_states = parameter_states(*optimizer_, parameters);
  step_.root_moments_after = moments_digest(after_states);
  step_.position = position;
  step_.step = step;
  step_.micro_batches = window.micro_batches;
  step_.samples_counted = window.samples;
  step_.samples_set = current.slot.samples_set;
  step_.loss_numerator = window.numerator;
  step_.loss_denominator = window.denominator;
  step_.norm_raw = window.norm;
  step_.clip_max = window.clip_max;
  step_.clip_factor = window.clip_factor;
  if (capture_.active) {
    capture_.after = clone_all(model_.parameter_tensors());
    capture_.states_after = clone_all(after_states);
    capture_.groups = groups_;
    capture_.step = step_;
    exchange_capture();
  }
  for (const auto& group : groups_) observers().on_group_step(group);
  observers().on_step(step_);
}

/// The candidate leaves its full tensors; the reference measures its own step against them.
void Engine::exchange_capture() {
  if (!mode.measures()) {
    write_capture(mode.capture_to, model_, capture_);
    return;
  }
  if (mode.whole) return;
  ReferenceStep reference{capture_.raw, reducer_->absolute_sums(), window.denominator, window.absolute_numerator, step_};
  std::string why;
  for (const auto& row : measure_capture(mode.locked_from, model_, reference, mode.locked_of, mode.float64, why)) observers().on_locked(row);
  if (!why.empty()) warn("locked-step", why);
  capture_ = {};
}

/// libtorch's optimizers write through data(), which has a counter of its own, so values are looked at too: of a large tensor
/// 64 pieces, for a step moves nearly all of it.
Engine::Mark Engine::mark_of(const at::Tensor& parameter) {
  constexpr std::size_t kPieces = 64, kPieceBytes = 64;
  if (!parameter.is_cpu()) return {parameter._version(), {}};  // looking at values would fetch them from the GPU at every step
  const auto values = parameter.detach().contiguous();
  const auto* bytes = static_cast<const char*>(values.const_data_ptr());
  const std::size_t size = values.nbytes();
  if (size <= kPieces * kPieceBytes) return {parameter._version(), digest_bytes(bytes, size)};
  std::array<char, kPieces * kPieceBytes> pieces;
  for (std::size_t i = 0; i < kPieces; ++i)
    std::memcpy(pieces.data() + i * kPieceBytes, bytes + i * (size - kPieceBytes) / (kPieces - 1), kPieceBytes);
  return {parameter._version(), digest_bytes(pieces.data(), pieces.size())};
}

void Engine::remember_parameters() {
  marks_.clear();
  if (options.allow_outside_updates.value()) return;
  for (const auto& item : model_.parameters()) marks_.push_back(mark_of(item.tensor));
}

void Engine::check_outside_updates() {
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    if (mark_of(model_.parameters()[i].tensor) == marks_[i]) continue;
    misuse("parameter '" + model_.parameters()[i].name +
               "' changed outside the optimizer handle: call step() on the handle that prepare() returned, not on the optimizer itself "
               "(or set options.allow_outside_updates = true if the program means to change parameters)",
           rank());
  }
}

void Engine::zero_gradients() {
  if (!prepared()) misuse("zero_grad() comes after prepare(model, optimizer, ...)", rank());
  // By the window and not by the batch: a zero_grad() at the top of the loop must not take the window's gradients either.
  if (window.local_rounds > 0 && !window.reduced) return;
  const SpanTimer timer(spans, SpanKind::kOptimizer);
  reducer_->reset();
}

void Engine::leave_batch() const {
  if (!current.valid) return;
  if (window.reduced)
    misuse("the window ended without the optimizer handle's step(): call opt.step() for every batch; inside a window it does nothing", rank());
  if (!current.backward && (current.entered || window.local_rounds > 0))
    misuse("the loop left a batch without backward(), for which other ranks wait; to leave a batch out, call accelerator.backward(loss, 0)", rank());
}

void Engine::abandon_window() {
  current = {};
  if (!prepared() || window.local_rounds == 0) return;
  window = {};
  statistics_.abandon();
  statistics_ = RunningStatistics(*module_);
  reducer_->reset();
}

void Engine::check_stop() {
  const auto done = position.optimizer_step;
  if (mode.stop_after > 0 && done >= mode.stop_after) stopping = true;
  if (mode.shadow_most > 0 && done >= std::min(mode.shadow_most, std::max(mode.shadow_least, steps_per_epoch + 2))) stopping = true;
}

}  // namespace samerun::detail
