// Puts one known fault into the runtime of the program that this file is linked with: SAMERUN_FAULT=ID[:key=value,...].
// Without the variable the program is the product. `samerun pair --candidate-env` sets it in the candidate only.
// Ids and mechanisms: README.md of this folder.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "inject.h"

namespace samerun::fault {
namespace {

using detail::ClipContext;
using detail::Communicator;
using detail::ScaleContext;
using detail::WeightContext;

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
  seams.batch = [](const Plan& plan, std::int64_t epoch, std::int64_t round, int rank, bool training) -> std::optional<BatchRef> {
    if (!training) return plan.at(epoch, round, rank);  // there metric() refuses it
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

// What follows takes settings (inject.h).
// What this rank contributed to the sum got lost.
void contribution_lost(Seams& seams, const Settings& settings) {
  seams.before_reduction = [settings](Tensors& gradients, const ReductionContext& context) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (settings.acts(context) && settings.at_tensor(i) && settings.in_precision(gradients[i])) gradients[i] = at::zeros_like(gradients[i]);
    }
  };
}

// A bucket that still holds what this rank contributed to the step before.
void contribution_stale(Seams& seams, const Settings& settings) {
  seams.before_reduction = [settings, last = Tensors()](Tensors& gradients, const ReductionContext& context) mutable {
    Tensors now;
    for (const auto& gradient : gradients) now.push_back(gradient.clone());
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (settings.acts(context) && settings.at_tensor(i) && settings.in_precision(gradients[i])) gradients[i] = last[i];
    }
    last = std::move(now);
  };
}

// The gradient of one tensor, or all of it, is the step before's.
void gradient_stale(Seams& seams, const Settings& settings) {
  seams.after_reduction = [settings, last = Tensors()](Tensors& gradients, const ReductionContext& context) mutable {
    Tensors now;
    for (const auto& gradient : gradients) now.push_back(gradient.clone());
    for (std::size_t i = 0; i < last.size(); ++i) {
      if (settings.acts(context) && settings.at_tensor(i) && settings.in_precision(gradients[i])) gradients[i].copy_(last[i]);
    }
    last = std::move(now);
  };
}

// One tensor is not reduced: each rank uses its own.
void not_reduced(Seams& seams, const Settings& settings) {
  auto local = std::make_shared<Tensors>();
  seams.before_reduction = [local](Tensors& gradients, const ReductionContext&) {
    local->clear();
    for (const auto& gradient : gradients) local->push_back(gradient.clone());
  };
  seams.after_reduction = [settings, local](Tensors& gradients, const ReductionContext& context) {
    for (std::size_t i = 0; i < local->size(); ++i) {
      if (settings.acts(context) && settings.at_tensor(i)) gradients[i].copy_((*local)[i] / context.local_denominator);
    }
  };
}

// `element` of the reduced gradient (-1: all) times `factor`.
void gradient_scaled(Seams& seams, const Settings& settings) {
  seams.after_reduction = [settings](Tensors& gradients, const ReductionContext& context) {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!settings.acts(context) || !settings.at_tensor(i) || !settings.in_precision(gradients[i])) continue;
      auto flat = gradients[i].view(-1);
      const int element = settings.integer("element", -1);
      (element < 0 ? flat : flat.slice(0, element, element + 1)).mul_(settings.number("factor", 2));
    }
  };
}

void gradients_swapped(Seams& seams, const Settings& settings) {
  seams.after_reduction = [settings](Tensors& gradients, const ReductionContext& context) {
    if (!settings.acts(context)) return;
    auto& one = gradients.at(static_cast<std::size_t>(settings.integer("one", 0)));
    auto& other = gradients.at(static_cast<std::size_t>(settings.integer("other", 1)));
    const auto copy = one.clone();
    one.copy_(other);
    other.copy_(copy);
  };
}

// Every rank draws what rank 0 draws.
void streams_equal(Seams& seams, const Settings& settings) {
  seams.stream = [settings](StreamName name, int rank) {
    if (settings.at_rank(rank) && static_cast<double>(name.epoch) >= settings.number("epoch", 0)) name.index -= rank;
    return name;
  };
}

// One row of one batch: `how` 0 leaves it out, 1 gives its neighbour twice, 2 gives another sample for it.
void row_changed(Seams& seams, const Settings& settings) {
  seams.batch = [settings](const Plan& plan, std::int64_t epoch, std::int64_t round, int rank, bool training) {
    auto batch = plan.at(epoch, round, rank);
    if (!batch || !training || batch->ids.size() < 2 || epoch != settings.integer("epoch", 0) || round != settings.integer("round", 5) ||
        rank != settings.integer("rank", 1)) {
      return batch;
    }
    if (settings.integer("how", 0) == 1) {
      batch->ids[0] = batch->ids[1];
    } else if (settings.integer("how", 0) == 2) {
      batch->ids[0] = (batch->ids[0] + 1) % 1000;
    } else {
      batch->ids.erase(batch->ids.begin());
      batch->real -= 1;
    }
    return batch;
  };
}

// Random transforms of ranks from `rank` on are seeded by the batch's place on its rank, and so draw the same numbers.
void sample_seeds_equal(Seams& seams, const Settings& settings) {
  seams.sample_seeds = [settings](std::vector<std::uint64_t>& seeds, std::int64_t index, int rank) {
    if (rank < settings.integer("rank", 0)) return;
    for (std::size_t row = 0; row < seeds.size(); ++row) seeds[row] = counter_random(7, static_cast<std::uint64_t>(index) * 4096 + row);
  };
}

// The ranks' batches of one round are exchanged: every sample once, by another rank.
void ranks_exchanged(Seams& seams, const Settings& settings) {
  seams.batch = [settings](const Plan& plan, std::int64_t epoch, std::int64_t round, int rank, bool training) {
    if (!training || round != settings.integer("round", 5)) return plan.at(epoch, round, rank);
    return plan.at(epoch, round, plan.options().world_size - 1 - rank);
  };
}

void clip_on_one_rank(Seams& seams, const Settings& settings) {
  seams.clip = [settings](const ClipContext& context) {
    const double norm = norm_of(*context.gradients);
    if (settings.at_step(context.step) && context.rank == settings.integer("rank", 0)) scale_to(*context.gradients, norm, context.max_norm);
    return norm;
  };
}

// Clips to another limit than the one that it was asked for.
void clip_to_other_limit(Seams& seams, const Settings& settings) {
  seams.clip = [settings](const ClipContext& context) {
    const double norm = norm_of(*context.gradients);
    scale_to(*context.gradients, norm, context.max_norm * (settings.at_step(context.step) ? settings.number("factor", 2) : 1));
    return norm;
  };
}

// The optimizer steps `times` times.
void optimizer_steps(Seams& seams, const Settings& settings) {
  seams.optimizer_step = [settings](const std::function<void()>& step, std::int64_t number, int rank) {
    const int times = settings.at_step(number) && settings.at_rank(rank) ? settings.integer("times", 0) : 1;
    for (int i = 0; i < times; ++i) step();
  };
}

// The scheduler leaves out its first steps and stays behind; with `catch`, it makes up for them at once later.
void scheduler_behind(Seams& seams, const Settings& settings) {
  seams.scheduler_steps = [settings, done = 0](bool sync, int) mutable {
    if (!sync) return 0;
    const int now = done++;
    if (now == settings.integer("from", 0)) return 0;
    return now == settings.integer("catch", -1) ? 2 : 1;
  };
}

// Parameters are moved: `when` 0 after the optimizer's step, 1 after a window's first micro-batch and back before the reduction.
void parameters_moved(Seams& seams, const Settings& settings) {
  auto parameters = std::make_shared<Tensors>();
  auto kept = std::make_shared<Tensors>();
  auto inner = std::make_shared<std::shared_ptr<Communicator>>();
  seams.communicator = [inner](std::shared_ptr<Communicator> given) { return *inner = given; };
  seams.broadcast_model = [parameters, inner](Tensors& tensors, int) {
    *parameters = tensors;
    for (auto& tensor : tensors) (*inner)->broadcast(tensor, 0);
  };
  const auto move = [settings, parameters](int rank) {
    const torch::NoGradGuard guard;
    for (std::size_t i = 0; i < parameters->size(); ++i) {
      if (settings.at_tensor(i) && settings.at_rank(rank) && settings.in_precision((*parameters)[i])) {
        auto values = (*parameters)[i].data();  // has a counter of versions of its own
        values.mul_(settings.number("factor", 1.001));
      }
    }
  };
  if (settings.integer("when", 0) == 0) {
    seams.optimizer_step = [settings, move](const std::function<void()>& step, std::int64_t number, int rank) {
      step();
      if (settings.at_step(number)) move(rank);
    };
    return;
  }
  seams.weight = [settings, move, parameters, kept](double weight, const WeightContext& context) {
    if (settings.at_step(context.step) && kept->empty() && context.world_size > 1) {
      for (const auto& parameter : *parameters) kept->push_back(parameter.detach().clone());
      move(context.rank);
    }
    return weight;
  };
  seams.before_reduction = [parameters, kept](Tensors&, const ReductionContext&) {
    for (std::size_t i = 0; i < kept->size(); ++i) (*parameters)[i].data().copy_((*kept)[i]);
    kept->clear();
  };
}

// A rank's share is weighted by another factor than the sum of weights says.
void share_scaled(Seams& seams, const Settings& settings) {
  seams.before_reduction = [settings](Tensors& gradients, const ReductionContext& context) {
    if (!settings.acts(context)) return;
    for (auto& gradient : gradients) gradient.mul_(settings.number("factor", 1.01));
  };
}

/// `text` without the name: key=value,...
Settings settings_of(const std::string& text) {
  Settings settings;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    const auto equals = item.find('=');
    if (equals != std::string::npos) settings.values[item.substr(0, equals)] = std::strtod(item.c_str() + equals + 1, nullptr);
  }
  return settings;
}

const Faults& step_faults() {
  static const Faults faults{{"lost", contribution_lost},         {"stale_part", contribution_stale},
                             {"stale", gradient_stale},           {"local", not_reduced},
                             {"scaled", gradient_scaled},         {"swapped", gradients_swapped},
                             {"streams", streams_equal},          {"row", row_changed},
                             {"exchanged", ranks_exchanged},      {"clip_one", clip_on_one_rank},
                             {"clip_limit", clip_to_other_limit}, {"opt_steps", optimizer_steps},
                             {"sched_behind", scheduler_behind},  {"moved", parameters_moved},
                             {"part_scaled", share_scaled},       {"sample_seeds", sample_seeds_equal}};
  return faults;
}

const std::map<std::string, std::function<void(Seams&)>>& catalogue() {
  static const std::map<std::string, std::function<void(Seams&)>> faults{
      {"G01", mean_of_micro_batches}, {"G02", mean_of_rank_means},        {"G04", times_world_size},
      {"G05", sum_for_mean},          {"G07", clip_by_shard_norm},        {"G10", clip_before_reduction},
      {"G16", no_broadcast},          {"G34leak", partial_window_leaks},  {"G34full", partial_window_scaled_as_full},
      {"S01", scheduler_per_rank},    {"S03", scheduler_per_micro_batch}, {"S04", batch_grows_with_ranks},
      {"G30", [](Seams&) {}},  // the program's own
      {"D01", first_epoch_again},     {"D02", evaluation_counts_padding}, {"D04", every_rank_reads_all}};
  return faults;
}

void decorate(Seams& seams) {
  const char* text = std::getenv("SAMERUN_FAULT");
  if (text == nullptr || *text == '\0') return;
  const std::string word = text, name = word.substr(0, word.find(':'));
  if (const auto plain = catalogue().find(word); plain != catalogue().end()) {
    plain->second(seams);
    return;
  }
  const auto settings = settings_of(word.substr(std::min(word.size(), name.size() + 1)));
  if (settings.integer("resumed", 0) == 1 && !in_resumed_run()) return;
  for (const auto* faults : {&step_faults(), &collective_faults(), &state_faults(), &file_faults(), &metric_faults()}) {
    if (const auto member = faults->find(name); member != faults->end()) {
      member->second(seams, settings);
      return;
    }
  }
  std::fprintf(stderr, "no fault '%s' is known\n", text);
  std::_Exit(2);
}

// Set before main(): the runtime's one hook is null in the product.
const bool kInstalled = [] {
  prepare_file_faults();
  detail::seam_decorator = &decorate;
  return true;
}();

}  // namespace
}  // namespace samerun::fault
