#include "running_statistics.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

namespace samerun::detail {

template <class BatchNorm>
void RunningStatistics::adopt(torch::nn::Module& module) {
  auto* norm = dynamic_cast<BatchNorm*>(&module);
  if (norm == nullptr || !norm->options.track_running_stats() || !norm->running_mean.defined()) return;
  Layer layer;
  layer.module = norm;
  layer.mean = norm->running_mean;
  layer.variance = norm->running_var;
  layer.batches = norm->num_batches_tracked;
  if (norm->options.momentum().has_value()) layer.momentum = *norm->options.momentum();
  layers_.push_back(std::move(layer));
}

RunningStatistics::RunningStatistics(torch::nn::Module& module) {
  for (const auto& part : module.modules()) {
    adopt<torch::nn::BatchNorm1dImpl>(*part);
    adopt<torch::nn::BatchNorm2dImpl>(*part);
    adopt<torch::nn::BatchNorm3dImpl>(*part);
  }
}

void RunningStatistics::begin() {
  const torch::NoGradGuard guard;
  for (auto& layer : layers_) {
    layer.active = layer.module->is_training();
    if (!layer.active) continue;
    layer.saved_mean = layer.mean.clone();
    layer.saved_variance = layer.variance.clone();
    layer.saved_batches = layer.batches.item<std::int64_t>();
    layer.mean.zero_();
    layer.variance.zero_();
    layer.batches.zero_();  // so that a plain average's factor is 1
  }
}

void RunningStatistics::restore(Layer& layer) {
  if (!layer.active) return;
  const torch::NoGradGuard guard;
  layer.mean.copy_(layer.saved_mean);
  layer.variance.copy_(layer.saved_variance);
  layer.batches.fill_(layer.saved_batches);
  layer.active = false;
}

void RunningStatistics::abandon() {
  for (auto& layer : layers_) restore(layer);
}

void RunningStatistics::end(bool counts) {
  if (layers_.empty()) return;
  const torch::NoGradGuard guard;
  std::vector<at::Tensor> parts{at::full({1}, counts ? 1.0 : 0.0, at::kDouble)};
  for (auto& layer : layers_) {
    const bool used = layer.active && layer.batches.item<std::int64_t>() > 0;
    parts.push_back(at::full({1}, used ? 1.0 : 0.0, at::kDouble));
    parts.push_back(layer.mean.to(at::kDouble).flatten());
    parts.push_back(layer.variance.to(at::kDouble).flatten());
    restore(layer);
  }
  contributions_.push_back(at::cat(parts));
}

void RunningStatistics::fold(Communicator& communicator) {
  const torch::NoGradGuard guard;
  if (contributions_.empty()) return;
  const auto gathered = communicator.all_gather(at::stack(contributions_));
  const auto rounds = static_cast<std::int64_t>(contributions_.size());
  contributions_.clear();
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (const auto& rank : gathered) fold_one(rank[round]);
  }
}

/// One micro-batch's vector into the statistics, in the statistics' own dtype, as the forward pass would have.
void RunningStatistics::fold_one(const at::Tensor& contribution) {
  if (contribution[0].item<double>() == 0) return;
  std::int64_t at = 1;
  for (auto& layer : layers_) {
    const bool used = contribution[at++].item<double>() != 0;
    const auto size = layer.mean.numel();
    const auto mean = contribution.narrow(0, at, size), variance = contribution.narrow(0, at + size, size);
    at += 2 * size;
    if (!used) continue;
    layer.batches.add_(1);
    // With a momentum the vectors already carry it; a plain average weighs each batch by one over their number.
    const double weight = layer.momentum ? *layer.momentum : 1.0 / static_cast<double>(layer.batches.item<std::int64_t>());
    const double share = layer.momentum ? 1.0 : weight;
    layer.mean.mul_(1 - weight).add_(mean.to(layer.mean.scalar_type()).mul(share));
    layer.variance.mul_(1 - weight).add_(variance.to(layer.variance.scalar_type()).mul(share));
  }
}

}  // namespace samerun::detail
