#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "samerun/core/event.h"
#include "trainable.h"

namespace samerun::detail {

/// Digest of a tensor's values, row-major whatever its strides; of the empty text when undefined.
Digest digest_of(const at::Tensor& tensor);
/// 2-norm in float64; 0 for tensors without floating values and for undefined ones.
double norm_of(const at::Tensor& tensor);
/// Root digest of the tensors, in order.
Digest root_digest(const std::vector<at::Tensor>& tensors);

struct CaptureOptions {
  std::string stage;
  std::int64_t step = 0;
  int virtual_rank = 0;
  std::int64_t micro_batch = -1;
  bool norms = true;
  bool sketches = false;
};

/// The trace of one tensor. Undefined gradients read as zeros of the parameter's shape and dtype.
TensorTrace trace_of(const std::string& name, const at::Tensor& tensor, const CaptureOptions& options);

}  // namespace samerun::detail
