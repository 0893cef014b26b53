#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace torch::nn {
class Module;
}

namespace samerun::detail {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The tensors of a model in registration order, each tensor once (a tied parameter has its first name).
class Trainable {
 public:
  Trainable() = default;
  explicit Trainable(const torch::nn::Module& module);

  const std::vector<NamedTensor>& parameters() const { return parameters_; }  ///< Those that require a gradient.
  const std::vector<NamedTensor>& state() const { return state_; }            ///< All parameters, then all buffers.
  std::vector<at::Tensor> parameter_tensors() const;
  std::vector<at::Tensor> state_tensors() const;
  /// The gradients of parameters(); undefined where backward did not reach one.
  std::vector<at::Tensor> gradients() const;
  void reset_gradients() const;
  /// Names of one and the same values (tied parameters), two or more a group; the first is that of state().
  const std::vector<std::vector<std::string>>& aliases() const { return aliases_; }
  /// "name dtype [shape] trained|frozen" a line, for comparison over ranks.
  std::vector<std::string> description() const;
  /// Turns each floating tensor to float64 in place (same TensorImpl, so optimizers built earlier hold it).
  void widen() const;
  /// Multiplies each floating element by 1 +- 2u with signs from `key`; u of the tensor's dtype.
  void perturb(std::uint64_t key) const;

 private:
  std::vector<NamedTensor> parameters_, state_;
  std::vector<std::vector<std::string>> aliases_;
};

std::string dtype_name(const at::Tensor& tensor);  ///< "float32", "float64", "bfloat16", "int64", ...

}  // namespace samerun::detail
