#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "samerun/core/event.h"
#include "trainable.h"

namespace torch::optim {
class Optimizer;
}

namespace samerun::detail {

/// One parameter's optimizer state, in the optimizer's own names. Tensors are undefined where the optimizer has made none.
struct ParameterState {
  std::int64_t group = 0;
  std::int64_t step = 0;  ///< Updates done; -1 where the optimizer does not count.
  at::Tensor moment1;     ///< Adam's exp_avg, SGD's momentum buffer, ...
  at::Tensor moment2;     ///< Adam's exp_avg_sq, RMSprop's square_avg, Adagrad's sum.
};

/// Settings of each parameter group now. `optimizer` is "AdamW", "Adam", "SGD", "RMSprop", "Adagrad" or "other".
std::vector<GroupStep> group_settings(torch::optim::Optimizer& optimizer, std::int64_t step);
/// In the order of `parameters`; group -1 for a parameter that the optimizer does not have.
std::vector<ParameterState> parameter_states(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters);
/// Root digest of moments and step counters.
Digest moments_digest(const std::vector<ParameterState>& states);
/// The learning rate of a group, read or set; every optimizer's options have it.
double learning_rate(torch::optim::Optimizer& optimizer, std::size_t group);
void set_learning_rate(torch::optim::Optimizer& optimizer, std::size_t group, double rate);

}  // namespace samerun::detail
