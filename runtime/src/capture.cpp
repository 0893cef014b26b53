#include "capture.h"

#include <torch/types.h>

#include <cmath>
#include <span>

#include "samerun/core/sketch.h"

namespace samerun::detail {
namespace {

/// Row-major values in a dtype that core can read: float32 and float64 as they are, narrower floats widened to float32.
at::Tensor readable(const at::Tensor& tensor) {
  auto values = tensor.detach();
  if (values.is_sparse()) values = values.to_dense();
  values = values.to(at::kCPU);  // itself where it is there already
  if (values.is_floating_point() && values.scalar_type() != at::kFloat && values.scalar_type() != at::kDouble) values = values.to(at::kFloat);
  return values.contiguous();
}

template <class T>
std::span<const T> span_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr<T>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

Digest digest_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return digest_bytes(nullptr, 0);
  auto values = tensor.detach();
  if (values.is_sparse()) values = values.to_dense();
  values = values.to(at::kCPU).contiguous();
  return digest_bytes(values.const_data_ptr(), values.nbytes());
}

double norm_of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_floating_point()) return 0;
  const auto values = readable(tensor);
  return values.scalar_type() == at::kFloat ? norm2(span_of<float>(values)) : norm2(span_of<double>(values));
}

Digest root_digest(const std::vector<at::Tensor>& tensors) {
  std::vector<Digest> digests;
  digests.reserve(tensors.size());
  for (const auto& tensor : tensors) digests.push_back(digest_of(tensor));
  return digest_list(digests);
}

TensorTrace trace_of(const std::string& name, const at::Tensor& tensor, const CaptureOptions& options) {
  TensorTrace trace;
  trace.step = options.step;
  trace.stage = options.stage;
  trace.name = name;
  trace.rank = options.virtual_rank;
  trace.micro_batch = options.micro_batch;
  trace.dtype = dtype_name(tensor);
  trace.shape.assign(tensor.sizes().begin(), tensor.sizes().end());
  trace.numel = tensor.numel();
  trace.digest = digest_of(tensor);
  if (options.norms) trace.norm = norm_of(tensor);
  if (options.sketches && tensor.is_floating_point()) {
    const auto values = readable(tensor);
    trace.sketch = values.scalar_type() == at::kFloat ? sketch(span_of<float>(values), name, 0, values.numel())
                                                      : sketch(span_of<double>(values), name, 0, values.numel());
  }
  return trace;
}

}  // namespace samerun::detail
