#include "optimizer_replay.h"

#include <torch/types.h>

#include <cmath>

namespace samerun::detail {
namespace {

at::Tensor or_zeros(const at::Tensor& value, const at::Tensor& like) {
  return value.defined() ? value : at::zeros_like(like);
}

ReplayOutput replay_adam(const GroupStep& group, const ReplayInput& input, bool decoupled) {
  const double rate = group.learning_rate, b1 = group.beta1, b2 = group.beta2;
  const auto count = static_cast<double>(input.step + 1);
  at::Tensor parameter = input.parameter, gradient = input.gradient;
  if (group.weight_decay != 0 && decoupled) parameter = parameter * (1 - rate * group.weight_decay);
  if (group.weight_decay != 0 && !decoupled) gradient = gradient + group.weight_decay * parameter;
  ReplayOutput output;
  output.moment1 = b1 * or_zeros(input.moment1, gradient) + (1 - b1) * gradient;
  output.moment2 = b2 * or_zeros(input.moment2, gradient) + (1 - b2) * gradient * gradient;
  const double correction1 = 1 - std::pow(b1, count), correction2 = 1 - std::pow(b2, count);
  const auto denominator = output.moment2.sqrt() / std::sqrt(correction2) + group.epsilon;
  const auto after = parameter - (rate / correction1) * (output.moment1 / denominator);
  output.update = after - input.parameter;
  return output;
}

ReplayOutput replay_sgd(const GroupStep& group, const ReplayInput& input, bool nesterov) {
  ReplayOutput output;
  auto direction = input.gradient;
  if (group.weight_decay != 0) direction = direction + group.weight_decay * input.parameter;
  if (group.momentum != 0) {
    const double dampening = group.beta1;  // GroupStep keeps SGD's dampening there
    output.moment1 = input.moment1.defined() ? group.momentum * input.moment1 + (1 - dampening) * direction : direction;
    direction = nesterov ? direction + group.momentum * output.moment1 : output.moment1;
  }
  output.update = -group.learning_rate * direction;
  return output;
}

}  // namespace

std::optional<ReplayOutput> replay_optimizer(const GroupStep& group, const ReplayInput& input) {
  if (group.optimizer == "AdamW") return replay_adam(group, input, true);
  if (group.optimizer == "Adam") return replay_adam(group, input, false);
  if (group.optimizer == "SGD") return replay_sgd(group, input, false);
  if (group.optimizer == "SGD+nesterov") return replay_sgd(group, input, true);
  return std::nullopt;
}

}  // namespace samerun::detail
