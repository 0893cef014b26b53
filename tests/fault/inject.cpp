// Puts one known fault into the runtime of the program that this file is linked with: SAMERUN_FAULT=ID[:key=value,...].
// Without the variable the program is the product. `samerun pair --candidate-env` sets it in the candidate only.
// Ids and mechanisms: README.md of this folder.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "seams.h"

namespace {

using samerun::BatchRef;
using samerun::Plan;
using samerun::PlanOptions;
using samerun::Uneven;
using samerun::detail::ClipContext;
using samerun::detail::ReductionContext;
using samerun::detail::ScaleContext;
using samerun::detail::Seams;
using samerun::detail::WeightContext;

double norm_of(const std::vector<at::Tensor>& tensors) {
  double square = 0;
  for (const auto& tensor : tensors) square += std::pow(tensor.norm().item<double>(), 2);
  return std::sqrt(square);
}

void scale_to(std::vector<at::Tensor>& tensors, double norm, double most) {
  for (auto& tensor : tensors) tensor.mul_(std::min(1.0, most / (norm + 1e-6)));
}

PlanOptions without_padding_mark(PlanOptions options) {
  options.uneven = Uneven::kDuplicate;
  return options;
}

// Mean of each micro-batch, averaged over micro-batches, whatever their sizes.
void mean_of_micro_batches(Seams& seams) {
  seams.weight = [](double, const WeightContext&) { return 1.0; };
}

// Each rank divides by its own count, then the ranks are averaged.
void mean_of_rank_means(Seams& seams) {
  seams.before_reduction = [](std::vector<at::Tensor>& gradients, const ReductionContext& context) {
    for (auto& gradient : gradients) gradient.div_(context.local_denominator);
  };
  seams.scale = [](double, const ScaleContext& context) { return 1.0 / context.world_size; };
}

void times_world_size(Seams& seams) {
  seams.scale = [](double scale, const ScaleContext& context) { return scale * context.world_size; };
}

// Each rank divides by its own count, and nobody divides by the number of ranks.
void sum_for_mean(Seams& seams) {
  seams.scale = [](double, const ScaleContext& context) { return 1.0 / context.local_denominator; };
}

void clip_by_shard_norm(Seams& seams) {
  seams.clip = [](const ClipContext& context) {
    std::vector<at::Tensor> shard;
    for (std::size_t i = 0; i < context.gradients->size(); ++i) {
      if (static_cast<int>(i) % context.world_size == context.rank) shard.push_back((*context.gradients)[i]);
    }
    const double norm = norm_of(shard);
    scale_to(*context.gradients, norm, context.max_norm);
    return norm;
  };
}

void clip_before_reduction(Seams& seams) {
  seams.before_reduction = [](std::vector<at::Tensor>& gradients, const ReductionContext& context) {
    for (auto& gradient : gradients) gradient.div_(context.local_denominator);
    scale_to(gradients, norm_of(gradients), 0.5);
    for (auto& gradient : gradients) gradient.mul_(context.local_denominator);
  };
  seams.clip = [](const ClipContext& context) { return norm_of(*context.gradients); };
}

void no_broadcast(Seams& seams) {
  seams.broadcast_model = [](std::vector<at::Tensor>& tensors, int rank) {
    torch::manual_seed(static_cast<std::uint64_t>(rank));
    for (auto& tensor : tensors) {
      if (rank > 0 && tensor.is_floating_point()) tensor.add_(0.01 * torch::randn(tensor.sizes()).to(tensor.scalar_type()));
    }
  };
}

void scheduler_per_rank(Seams& seams) {
  seams.scheduler_steps = [](bool sync, int world_size) { return sync ? world_size : 0; };
}

void scheduler_per_micro_batch(Seams& seams) {
  seams.scheduler_steps = [](bool, int) { return 1; };
}

void batch_grows_with_ranks(Seams& seams) {
  seams.plan = [](PlanOptions options, bool training, int) {
    if (training) options.batch_size *= options.world_size;
    return options;
  };
}

void first_epoch_again(Seams& seams) {
  seams.batch = [](const Plan& plan, std::int64_t, std::int64_t round, int rank, bool) { return plan.at(0, round, rank); };
}

void evaluation_counts_padding(Seams& seams) {
  seams.plan = [](PlanOptions options, bool training, int) { return training ? options : without_padding_mark(options); };
  seams.batch = [](const Plan& plan, std::int64_t epoch, std::int64_t round, int rank, bool training) {
    auto batch = plan.at(epoch, round, rank);
    if (batch && !training) batch->real = static_cast<std::int64_t>(batch->ids.size());
    return batch;
  };
}

void every_rank_reads_all(Seams& seams) {
  seams.batch = [](const Plan& plan, std::int64_t epoch, std::int64_t round, int rank, bool) -> std::optional<BatchRef> {
    const int world = plan.options().world_size;
    auto batch = plan.at(epoch, round / world, static_cast<int>(round % world));
    if (batch) batch->global_index = round * world + rank;
    return batch;
  };
}

// The last, partial window of an epoch is not ended: its gradients leak into the next epoch's first window.
void partial_window_leaks(Seams& seams) {
  seams.window_end = [](bool, std::int64_t rounds_done, std::int64_t accumulation_steps, std::int64_t) { return rounds_done == accumulation_steps; };
}

// The last, partial window is divided as if it were full.
void partial_window_scaled_as_full(Seams& seams) {
  seams.scale = [](double scale, const ScaleContext& context) {
    return scale * static_cast<double>(context.rounds) / static_cast<double>(context.accumulation_steps);
  };
}

const std::map<std::string, std::function<void(Seams&)>>& catalogue() {
  static const std::map<std::string, std::function<void(Seams&)>> faults{
      {"G01", mean_of_micro_batches}, {"G02", mean_of_rank_means},        {"G04", times_world_size},
      {"G05", sum_for_mean},          {"G07", clip_by_shard_norm},        {"G10", clip_before_reduction},
      {"G16", no_broadcast},          {"G34leak", partial_window_leaks},  {"G34full", partial_window_scaled_as_full},
      {"S01", scheduler_per_rank},    {"S03", scheduler_per_micro_batch}, {"S04", batch_grows_with_ranks},
      {"D01", first_epoch_again},     {"D02", evaluation_counts_padding}, {"D04", every_rank_reads_all}};
  return faults;
}

void decorate(Seams& seams) {
  const char* text = std::getenv("SAMERUN_FAULT");
  if (text == nullptr || *text == '\0') return;
  const auto found = catalogue().find(text);
  if (found == catalogue().end()) {
    std::fprintf(stderr, "no fault '%s' is known\n", text);
    std::_Exit(2);
  }
  found->second(seams);
}

// Set before main(): the runtime's one hook is null in the product.
const bool kInstalled = [] {
  samerun::detail::seam_decorator = &decorate;
  return true;
}();

}  // namespace
