#include "optimizer_state.h"

#include <torch/optim.h>

#include <unordered_map>

#include "capture.h"

namespace samerun::detail {
namespace {

namespace optim = torch::optim;

void describe(const optim::OptimizerOptions& options, GroupStep& group) {
  if (const auto* adamw = dynamic_cast<const optim::AdamWOptions*>(&options)) {
    group.optimizer = "AdamW";
    group.weight_decay = adamw->weight_decay();
    group.beta1 = std::get<0>(adamw->betas());
    group.beta2 = std::get<1>(adamw->betas());
    group.epsilon = adamw->eps();
    if (adamw->amsgrad()) group.optimizer += "+amsgrad";
  } else if (const auto* adam = dynamic_cast<const optim::AdamOptions*>(&options)) {
    group.optimizer = "Adam";
    group.weight_decay = adam->weight_decay();
    group.beta1 = std::get<0>(adam->betas());
    group.beta2 = std::get<1>(adam->betas());
    group.epsilon = adam->eps();
    if (adam->amsgrad()) group.optimizer += "+amsgrad";
  } else if (const auto* sgd = dynamic_cast<const optim::SGDOptions*>(&options)) {
    group.optimizer = sgd->nesterov() ? "SGD+nesterov" : "SGD";
    group.weight_decay = sgd->weight_decay();
    group.momentum = sgd->momentum();
    group.beta1 = sgd->dampening();
  } else if (const auto* rms = dynamic_cast<const optim::RMSpropOptions*>(&options)) {
    group.optimizer = "RMSprop";
    group.weight_decay = rms->weight_decay();
    group.momentum = rms->momentum();
    group.beta2 = rms->alpha();
    group.epsilon = rms->eps();
  } else if (const auto* adagrad = dynamic_cast<const optim::AdagradOptions*>(&options)) {
    group.optimizer = "Adagrad";
    group.weight_decay = adagrad->weight_decay();
    group.epsilon = adagrad->eps();
  } else {
    group.optimizer = "other";
  }
}

void describe(const optim::OptimizerParamState& state, ParameterState& out) {
  if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(&state)) {
    out.step = adamw->step();
    out.moment1 = adamw->exp_avg();
    out.moment2 = adamw->exp_avg_sq();
  } else if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(&state)) {
    out.step = adam->step();
    out.moment1 = adam->exp_avg();
    out.moment2 = adam->exp_avg_sq();
  } else if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(&state)) {
    out.step = -1;
    out.moment1 = sgd->momentum_buffer();
  } else if (const auto* rms = dynamic_cast<const optim::RMSpropParamState*>(&state)) {
    out.step = rms->step();
    out.moment1 = rms->momentum_buffer();
    out.moment2 = rms->square_avg();
  } else if (const auto* adagrad = dynamic_cast<const optim::AdagradParamState*>(&state)) {
    out.step = adagrad->step();
    out.moment2 = adagrad->sum();
  }
}

}  // namespace

std::vector<GroupStep> group_settings(optim::Optimizer& optimizer, std::int64_t step) {
  std::vector<GroupStep> groups;
  for (auto& group : optimizer.param_groups()) {
    GroupStep settings;
    settings.step = step;
    settings.group = static_cast<std::int64_t>(groups.size());
    settings.learning_rate = group.options().get_lr();
    describe(group.options(), settings);
    groups.push_back(std::move(settings));
  }
  return groups;
}

std::vector<ParameterState> parameter_states(optim::Optimizer& optimizer, const std::vector<NamedTensor>& parameters) {
  std::unordered_map<const void*, std::int64_t> group_of;
  std::int64_t index = 0;
  for (auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) group_of[parameter.unsafeGetTensorImpl()] = index;
    ++index;
  }
  std::vector<ParameterState> states;
  for (const auto& parameter : parameters) {
    auto* key = parameter.tensor.unsafeGetTensorImpl();
    ParameterState state;
    const auto group = group_of.find(key);
    state.group = group == group_of.end() ? -1 : group->second;
    const auto found = optimizer.state().find(key);
    if (found != optimizer.state().end()) describe(*found->second, state);
    states.push_back(std::move(state));
  }
  return states;
}

Digest moments_digest(const std::vector<ParameterState>& states) {
  std::vector<Digest> digests;
  for (const auto& state : states) {
    digests.push_back(digest_bytes(&state.step, sizeof state.step));
    digests.push_back(digest_of(state.moment1));
    digests.push_back(digest_of(state.moment2));
  }
  return digest_list(digests);
}

double learning_rate(optim::Optimizer& optimizer, std::size_t group) {
  return optimizer.param_groups().at(group).options().get_lr();
}
void set_learning_rate(optim::Optimizer& optimizer, std::size_t group, double rate) {
  optimizer.param_groups().at(group).options().set_lr(rate);
}

}  // namespace samerun::detail
