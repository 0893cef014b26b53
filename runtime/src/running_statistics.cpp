#include "running_statistics.h"

#include <torch/nn/modules/batchnorm.h>
#include <torch/types.h>

#include <cmath>

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
    layer.open = true;
    layer.saved_mean = layer.mean.clone();
    layer.saved_variance = layer.variance.clone();
    layer.saved_batches = layer.batches.item<std::int64_t>();
    layer.zeroed = layer.module->is_training();
    if (!layer.zeroed) continue;
    layer.mean.zero_();
    layer.variance.zero_();
    layer.batches.zero_();  // so that a plain average's factor is 1
  }
}

void RunningStatistics::restore(Layer& layer) {
  if (!layer.open) return;
  const torch::NoGradGuard guard;
  layer.mean.copy_(layer.saved_mean);
  layer.variance.copy_(layer.saved_variance);
  layer.batches.fill_(layer.saved_batches);
  layer.zeroed = false;
}

/// What the forward passes since begin() brought: m * statistic, or with a plain average the average of the statistics.
at::Tensor RunningStatistics::brought(const Layer& layer, const at::Tensor& now, const at::Tensor& saved, double passes) {
  const auto values = now.detach().flatten().to(at::kDouble, /*non_blocking=*/false, /*copy=*/true);  // the statistics are restored next
  if (layer.zeroed || passes == 0) return values;
  const auto old = saved.to(at::kDouble).flatten();
  if (layer.momentum) return values - old * std::pow(1 - *layer.momentum, passes);
  const auto before = static_cast<double>(layer.saved_batches);
  return (values * (before + passes) - old * before) / passes;
}

void RunningStatistics::abandon() {
  for (auto& layer : layers_) restore(layer);
}

void RunningStatistics::end(bool counts) {
  if (layers_.empty()) return;
  const torch::NoGradGuard guard;
  std::vector<at::Tensor> parts{at::full({1}, counts ? 1.0 : 0.0, at::kDouble)};
  for (auto& layer : layers_) {
    const auto passes = layer.open ? static_cast<double>(layer.batches.item<std::int64_t>() - (layer.zeroed ? 0 : layer.saved_batches)) : 0.0;
    parts.push_back(at::full({1}, passes, at::kDouble));
    parts.push_back(brought(layer, layer.mean, layer.saved_mean, passes));
    parts.push_back(brought(layer, layer.variance, layer.saved_variance, passes));
    if (passes > 0 || layer.zeroed) restore(layer);
    layer.open = false;
  }
  contributions_.push_back(at::cat(parts));
}

at::Tensor RunningStatistics::pending() const {
  return contributions_.empty() ? at::Tensor() : at::stack(contributions_);
}

void RunningStatistics::set_pending(const at::Tensor& contributions) {
  contributions_.clear();
  for (std::int64_t i = 0; contributions.defined() && i < contributions.size(0); ++i) contributions_.push_back(contributions[i]);
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
    const double passes = contribution[at++].item<double>();
    const auto size = layer.mean.numel();
    const auto mean = contribution.narrow(0, at, size), variance = contribution.narrow(0, at + size, size);
    at += 2 * size;
    if (passes == 0) continue;
    layer.batches.add_(static_cast<std::int64_t>(passes));
    // With a momentum the vectors already carry it; a plain average weighs each pass by one over their number.
    const double weight = passes / static_cast<double>(layer.batches.item<std::int64_t>());
    const double keep = layer.momentum ? std::pow(1 - *layer.momentum, passes) : 1 - weight;
    const double share = layer.momentum ? 1.0 : weight;
    layer.mean.mul_(keep).add_(mean.to(layer.mean.scalar_type()).mul(share));
    layer.variance.mul_(keep).add_(variance.to(layer.variance.scalar_type()).mul(share));
  }
}

}  // namespace samerun::detail
