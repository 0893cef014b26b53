#pragma once

#include <vector>

#include "state_tree.h"
#include "trainable.h"

namespace torch::optim {
class Optimizer;
}

namespace samerun::detail {

/// An optimizer as leaves "optimizer/NAME/FIELD" (state of a parameter, tensors and step) and "optimizer/groupK/FIELD" (its options).
/// `model`: all named tensors of the model; a parameter that is not among them is called by its place, "group0.3".
/// Throws kCheckpoint for an optimizer other than AdamW, Adam, SGD, RMSprop and Adagrad.
void capture_optimizer(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& model, StateTree& tree);
/// Throws kCheckpoint naming the leaf where `tree` is of another optimizer, of other groups or shapes. Changes nothing.
void check_optimizer(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& model, const StateTree& tree);
/// State that the optimizer has not made yet is made, and state that `tree` does not have is removed.
void apply_optimizer(torch::optim::Optimizer& optimizer, const std::vector<NamedTensor>& model, const StateTree& tree);
/// Fills moments and options with NaN and counters with nonsense, so that what a load leaves out cannot pass.
void poison_optimizer(torch::optim::Optimizer& optimizer);

}  // namespace samerun::detail
