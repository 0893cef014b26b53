#include "optimizer_leaves.h"

#include <torch/optim.h>
#include <torch/types.h>

#include <limits>
#include <memory>
#include <set>
#include <unordered_map>
#include <variant>

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

namespace optim = torch::optim;

/// A member of an optimizer's options or state, by reference.
struct Field {
  std::string name;
  std::variant<at::Tensor*, std::int64_t*, double*, bool*> value;
};
using Fields = std::vector<Field>;

template <class Adam>
Fields adam_options(Adam& options) {
  return {{"lr", &options.lr()},   {"beta1", &std::get<0>(options.betas())},  {"beta2", &std::get<1>(options.betas())},
          {"eps", &options.eps()}, {"weight_decay", &options.weight_decay()}, {"amsgrad", &options.amsgrad()}};
}

template <class Adam>
Fields adam_state(Adam& state) {
  return {{"step", &state.step()}, {"exp_avg", &state.exp_avg()}, {"exp_avg_sq", &state.exp_avg_sq()}, {"max_exp_avg_sq", &state.max_exp_avg_sq()}};
}

[[noreturn]] void unknown_optimizer() {
  throw Error(ErrorCode::kCheckpoint, "this optimizer's state is not known to checkpoints, which keep AdamW, Adam, SGD, RMSprop and Adagrad");
}

/// What a kind of optimizer keeps, all in one place.
struct Kind {
  std::string name;
  Fields options;
  std::function<std::unique_ptr<optim::OptimizerParamState>()> make_state;
};

Kind kind_of(optim::OptimizerOptions& options) {
  if (auto* adamw = dynamic_cast<optim::AdamWOptions*>(&options))
    return {"AdamW", adam_options(*adamw), [] { return std::make_unique<optim::AdamWParamState>(); }};
  if (auto* adam = dynamic_cast<optim::AdamOptions*>(&options))
    return {"Adam", adam_options(*adam), [] { return std::make_unique<optim::AdamParamState>(); }};
  if (auto* sgd = dynamic_cast<optim::SGDOptions*>(&options))
    return {"SGD",
            {{"lr", &sgd->lr()},
             {"momentum", &sgd->momentum()},
             {"dampening", &sgd->dampening()},
             {"weight_decay", &sgd->weight_decay()},
             {"nesterov", &sgd->nesterov()}},
            [] { return std::make_unique<optim::SGDParamState>(); }};
  if (auto* rms = dynamic_cast<optim::RMSpropOptions*>(&options))
    return {"RMSprop",
            {{"lr", &rms->lr()},
             {"alpha", &rms->alpha()},
             {"eps", &rms->eps()},
             {"weight_decay", &rms->weight_decay()},
             {"momentum", &rms->momentum()},
             {"centered", &rms->centered()}},
            [] { return std::make_unique<optim::RMSpropParamState>(); }};
  if (auto* adagrad = dynamic_cast<optim::AdagradOptions*>(&options))
    return {"Adagrad",
            {{"lr", &adagrad->lr()},
             {"lr_decay", &adagrad->lr_decay()},
             {"weight_decay", &adagrad->weight_decay()},
             {"initial_accumulator_value", &adagrad->initial_accumulator_value()},
             {"eps", &adagrad->eps()}},
            [] { return std::make_unique<optim::AdagradParamState>(); }};
  unknown_optimizer();
}

Fields fields_of(optim::OptimizerParamState& state) {
  if (auto* adamw = dynamic_cast<optim::AdamWParamState*>(&state)) return adam_state(*adamw);
  if (auto* adam = dynamic_cast<optim::AdamParamState*>(&state)) return adam_state(*adam);
  if (auto* sgd = dynamic_cast<optim::SGDParamState*>(&state)) return {{"momentum_buffer", &sgd->momentum_buffer()}};
  if (auto* rms = dynamic_cast<optim::RMSpropParamState*>(&state))
    return {{"step", &rms->step()}, {"square_avg", &rms->square_avg()}, {"momentum_buffer", &rms->momentum_buffer()}, {"grad_avg", &rms->grad_avg()}};
  if (auto* adagrad = dynamic_cast<optim::AdagradParamState*>(&state)) return {{"step", &adagrad->step()}, {"sum", &adagrad->sum()}};
  unknown_optimizer();
}

struct Capture {
  StateTree& tree;
  std::string path;
  void operator()(at::Tensor* tensor) const {
    if (tensor->defined()) tree.set(path, *tensor);
  }
  void operator()(std::int64_t* value) const { tree.set(path, *value); }
  void operator()(double* value) const { tree.set(path, *value); }
  void operator()(bool* value) const { tree.set(path, *value ? "true" : "false"); }
};

struct Apply {
  const StateTree& tree;
  std::string path;
  c10::Device device = at::kCPU;
  void operator()(at::Tensor* tensor) const {
    *tensor = tree.has(path) ? tree.tensor(path).to(device, /*non_blocking=*/false, /*copy=*/true) : at::Tensor();
  }
  void operator()(std::int64_t* value) const { *value = tree.integer(path); }
  void operator()(double* value) const { *value = tree.number(path); }
  void operator()(bool* value) const { *value = tree.text(path) == "true"; }
};

struct Poison {
  at::Tensor parameter;
  void operator()(at::Tensor* tensor) const { *tensor = at::full_like(parameter, std::numeric_limits<double>::quiet_NaN()); }
  void operator()(std::int64_t* value) const { *value = 987'654; }
  void operator()(double* value) const { *value = std::numeric_limits<double>::quiet_NaN(); }
  void operator()(bool* value) const { *value = !*value; }
};

struct Slot {
  std::string name;
  at::Tensor parameter;
  optim::OptimizerParamGroup* group = nullptr;
};

/// Every parameter of the optimizer under its name.
std::vector<Slot> slots_of(optim::Optimizer& optimizer, const std::vector<NamedTensor>& model) {
  std::unordered_map<const void*, std::string> names;
  for (const auto& item : model) names[item.tensor.unsafeGetTensorImpl()] = item.name;
  std::vector<Slot> slots;
  std::size_t k = 0;
  for (auto& group : optimizer.param_groups()) {
    for (std::size_t i = 0; i < group.params().size(); ++i) {
      const auto& parameter = group.params()[i];
      const auto known = names.find(parameter.unsafeGetTensorImpl());
      slots.push_back({known != names.end() ? known->second : "group" + std::to_string(k) + "." + std::to_string(i), parameter, &group});
    }
    ++k;
  }
  return slots;
}

std::string group_path(std::size_t index) {
  return "optimizer/group" + std::to_string(index) + "/";
}

optim::OptimizerParamState* state_of(optim::Optimizer& optimizer, const at::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  return found == optimizer.state().end() ? nullptr : found->second.get();
}

}  // namespace

void capture_optimizer(optim::Optimizer& optimizer, const std::vector<NamedTensor>& model, StateTree& tree) {
  std::size_t index = 0;
  for (auto& group : optimizer.param_groups()) {
    const auto path = group_path(index++);
    const auto kind = kind_of(group.options());
    tree.set(path + "kind", kind.name);
    for (const auto& field : kind.options) std::visit(Capture{tree, path + field.name}, field.value);
  }
  for (const auto& slot : slots_of(optimizer, model)) {
    auto* state = state_of(optimizer, slot.parameter);
    if (state == nullptr) continue;
    for (const auto& field : fields_of(*state)) std::visit(Capture{tree, "optimizer/" + slot.name + "/" + field.name}, field.value);
  }
}

void check_optimizer(optim::Optimizer& optimizer, const std::vector<NamedTensor>& model, const StateTree& tree) {
  std::set<std::string> known;
  std::size_t index = 0;
  for (auto& group : optimizer.param_groups()) {
    const auto path = group_path(index++);
    const auto kind = kind_of(group.options());
    if (!tree.has(path + "kind") || tree.text(path + "kind") != kind.name)
      throw Error(
          ErrorCode::kCheckpoint, "the checkpoint is of another optimizer",
          {{"group", std::to_string(index - 1)}, {"saved", tree.has(path + "kind") ? tree.text(path + "kind") : "none"}, {"this run", kind.name}});
    known.insert(path + "kind");
    for (const auto& field : kind.options) {
      tree.text(path + field.name);
      known.insert(path + field.name);
    }
  }
  for (const auto& slot : slots_of(optimizer, model)) {
    for (const auto& field : fields_of(*kind_of(slot.group->options()).make_state())) {
      const auto path = "optimizer/" + slot.name + "/" + field.name;
      known.insert(path);
      const bool is_tensor = std::holds_alternative<at::Tensor*>(field.value);
      if (is_tensor && tree.has(path) && tree.tensor(path).sizes() != slot.parameter.sizes())
        throw Error(ErrorCode::kCheckpoint, "the checkpoint's leaf " + path + " has another shape than the parameter");
    }
  }
  for (const auto& [rest, leaf] : tree.below("optimizer/")) {
    if (known.count("optimizer/" + rest) == 0)
      throw Error(ErrorCode::kCheckpoint, "the checkpoint has the leaf optimizer/" + rest + ", for which this run's optimizer has no place");
  }
}

void apply_optimizer(optim::Optimizer& optimizer, const std::vector<NamedTensor>& model, const StateTree& tree) {
  std::size_t index = 0;
  for (auto& group : optimizer.param_groups()) {
    const auto path = group_path(index++);
    for (const auto& field : kind_of(group.options()).options) std::visit(Apply{tree, path + field.name}, field.value);
  }
  for (const auto& slot : slots_of(optimizer, model)) {
    auto* key = slot.parameter.unsafeGetTensorImpl();
    const auto path = "optimizer/" + slot.name + "/";
    if (tree.below(path).empty()) {
      optimizer.state().erase(key);
      continue;
    }
    auto state = kind_of(slot.group->options()).make_state();
    for (const auto& field : fields_of(*state)) std::visit(Apply{tree, path + field.name, slot.parameter.device()}, field.value);
    optimizer.state()[key] = std::move(state);
  }
}

void poison_optimizer(optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    const auto kind = kind_of(group.options());
    for (const auto& parameter : group.params()) {
      auto state = kind.make_state();
      for (const auto& field : fields_of(*state)) std::visit(Poison{parameter.detach()}, field.value);
      optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
    }
    for (const auto& field : kind.options) std::visit(Poison{}, field.value);
  }
}

}  // namespace samerun::detail
