#include "trainable.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "samerun/core/stream.h"

namespace samerun::detail {

namespace {

/// What makes two names one tensor: the memory of its values, or the object where it has none.
std::string identity(const at::Tensor& tensor) {
  const void* place = tensor.numel() > 0 ? tensor.const_data_ptr() : tensor.unsafeGetTensorImpl();
  std::string text = std::to_string(reinterpret_cast<std::uintptr_t>(place)) + " " + dtype_name(tensor);
  for (const auto size : tensor.sizes()) text += " " + std::to_string(size);
  return text;
}

std::vector<std::vector<std::string>> aliases_in(const torch::nn::Module& module) {
  std::vector<std::vector<std::string>> groups;
  std::unordered_map<std::string, std::size_t> group_of;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto [at, fresh] = group_of.try_emplace(identity(tensor), groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(name);
  };
  for (const auto& item : module.named_parameters()) add(item.key(), item.value());
  for (const auto& item : module.named_buffers()) add(item.key(), item.value());
  std::erase_if(groups, [](const auto& names) { return names.size() < 2; });
  return groups;
}

}  // namespace

Trainable::Trainable(const torch::nn::Module& module) : aliases_(aliases_in(module)) {
  std::unordered_set<const void*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    state_.push_back({item.key(), item.value()});
    if (item.value().requires_grad()) parameters_.push_back({item.key(), item.value()});
  }
  for (const auto& item : module.named_buffers()) {
    if (!item.value().defined() || !seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    state_.push_back({item.key(), item.value()});
  }
}

std::vector<at::Tensor> Trainable::parameter_tensors() const {
  std::vector<at::Tensor> tensors;
  for (const auto& item : parameters_) tensors.push_back(item.tensor);
  return tensors;
}

std::vector<at::Tensor> Trainable::state_tensors() const {
  std::vector<at::Tensor> tensors;
  for (const auto& item : state_) tensors.push_back(item.tensor);
  return tensors;
}

std::vector<at::Tensor> Trainable::gradients() const {
  std::vector<at::Tensor> tensors;
  for (const auto& item : parameters_) tensors.push_back(item.tensor.grad());
  return tensors;
}

void Trainable::reset_gradients() const {
  for (const auto& item : parameters_) at::Tensor(item.tensor).mutable_grad().reset();
}

std::vector<std::string> Trainable::description() const {
  std::vector<std::string> lines;
  for (const auto& item : state_) {
    std::string line = item.name + " " + dtype_name(item.tensor) + " [";
    for (const auto size : item.tensor.sizes()) line += std::to_string(size) + ",";
    lines.push_back(line + "] " + (item.tensor.requires_grad() ? "trained" : "frozen"));
  }
  return lines;
}

void Trainable::widen() const {
  const torch::NoGradGuard guard;
  for (const auto& item : state_) {
    at::Tensor tensor = item.tensor;
    if (tensor.is_floating_point()) tensor.set_data(tensor.detach().to(at::kDouble));
  }
}

void Trainable::perturb(std::uint64_t key) const {
  const torch::NoGradGuard guard;
  std::uint64_t counter = 0;
  for (const auto& item : state_) {
    at::Tensor tensor = item.tensor;
    if (!tensor.is_floating_point()) continue;
    const double unit = tensor.scalar_type() == at::kDouble ? std::ldexp(1.0, -53) : std::ldexp(1.0, -24);
    auto factors = at::empty(tensor.sizes(), at::kDouble);
    auto* values = factors.data_ptr<double>();
    for (std::int64_t i = 0; i < factors.numel(); ++i) values[i] = (counter_random(key, counter++) & 1) != 0 ? 1 + 2 * unit : 1 - 2 * unit;
    tensor.mul_(factors.to(tensor.scalar_type()));
  }
}

std::string dtype_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    default:
      return c10::toString(tensor.scalar_type());
  }
}

}  // namespace samerun::detail
