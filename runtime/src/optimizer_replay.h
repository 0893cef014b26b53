#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "samerun/core/event.h"

namespace samerun::detail {

/// One parameter before its update, float64.
struct ReplayInput {
  at::Tensor parameter, gradient;  ///< Gradient after clipping.
  at::Tensor moment1, moment2;     ///< Undefined = not made yet.
  std::int64_t step = 0;           ///< Updates done before this one.
};
struct ReplayOutput {
  at::Tensor update;  ///< New parameter minus old.
  at::Tensor moment1, moment2;
};

/// The optimizer's rule in float64, from its definition: Adam (Kingma, Ba 2015), AdamW (Loshchilov, Hutter 2019), SGD with
/// momentum and Nesterov (Sutskever et al. 2013, in torch's form). nullopt for optimizers that are not replayed.
std::optional<ReplayOutput> replay_optimizer(const GroupStep& group, const ReplayInput& input);

}  // namespace samerun::detail
