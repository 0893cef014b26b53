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

#include "seams.h"

namespace {

using samerun::BatchRef;
using samerun::Plan;
using samerun::PlanOptions;
using samerun::Uneven;
using samerun::detail::ClipContext;
using samerun::detail::Communicator;
using samerun::detail::PendingReduction;
using samerun::detail::Reduction;
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

// What follows takes settings: NAME:key=value,... A fault acts in steps [from, until] on `rank` (-1: all) and on gradient `tensor`
// (-1: all; in the model's order); precision=32 or 64 leaves the runs in the other precision alone.
struct Settings {
  std::map<std::string, double> values;

  double number(const std::string& key, double otherwise) const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
  int integer(const std::string& key, int otherwise) const { return static_cast<int>(number(key, otherwise)); }
  bool at_step(std::int64_t step) const {
    const auto now = static_cast<double>(step);
    return now >= number("from", 0) && now <= number("until", 1e9);
  }
  bool at_rank(int rank) const { return integer("rank", -1) < 0 || integer("rank", -1) == rank; }
  bool at_tensor(std::size_t index) const { return integer("tensor", -1) < 0 || integer("tensor", -1) == static_cast<int>(index); }
  bool in_precision(const at::Tensor& tensor) const {
    const int bits = integer("precision", 0);
    return bits == 0 || (bits == 64) == (tensor.scalar_type() == at::kDouble);
  }
  bool acts(const ReductionContext& context) const { return at_step(context.step) && at_rank(context.rank); }
};

using Tensors = std::vector<at::Tensor>;

/// Hands every collective on; `after` sees what an all-reduce of gradients brought (the four sums of a window are left alone).
class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(std::shared_ptr<Communicator> inner, std::function<void(at::Tensor&)> before, std::function<void(at::Tensor&)> after)
      : inner_(std::move(inner)), before_(std::move(before)), after_(std::move(after)) {}
  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  std::string backend() const override { return inner_->backend(); }
  PendingReduction all_reduce(at::Tensor& tensor, Reduction op) override {
    if (op != Reduction::kSum || tensor.numel() <= 4 || world_size() == 1) return inner_->all_reduce(tensor, op);
    before_(tensor);
    inner_->all_reduce(tensor, op).wait();
    after_(tensor);
    auto done = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    done->markCompleted(c10::IValue(Tensors{tensor}));
    return PendingReduction(done);
  }
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override { return inner_->all_gather(tensor); }
  void broadcast(at::Tensor& tensor, int root) override { inner_->broadcast(tensor, root); }
  void barrier() override { inner_->barrier(); }
  c10::intrusive_ptr<c10d::ProcessGroup> group() override { return inner_->group(); }

 private:
  std::shared_ptr<Communicator> inner_;
  std::function<void(at::Tensor&)> before_, after_;
};

void wrap(Seams& seams, std::function<void(at::Tensor&, int rank)> before, std::function<void(at::Tensor&, int rank)> after) {
  seams.communicator = [=](std::shared_ptr<Communicator> inner) -> std::shared_ptr<Communicator> {
    const int rank = inner->rank();
    return std::make_shared<FaultyCommunicator>(
        std::move(inner), [=](at::Tensor& tensor) { before(tensor, rank); }, [=](at::Tensor& tensor) { after(tensor, rank); });
  };
}

// Gradients travel in bfloat16.
void reduce_in_bfloat16(Seams& seams, const Settings& settings) {
  const auto round = [settings](at::Tensor& tensor, int) {
    if (settings.in_precision(tensor)) tensor.copy_(tensor.to(at::kBFloat16));
  };
  wrap(seams, round, round);
}

// A part of what arrives is zeros.
void received_zeros(Seams& seams, const Settings& settings) {
  wrap(
      seams, [](at::Tensor&, int) {},
      [settings](at::Tensor& tensor, int rank) {
        if (!settings.at_rank(rank) || !settings.in_precision(tensor)) return;
        auto flat = tensor.view(-1);
        const auto count = std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(flat.numel()) * settings.number("part", 0.01)));
        flat.slice(0, flat.numel() / 3, flat.numel() / 3 + count).zero_();
      });
}

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
  seams.stream = [settings](samerun::StreamName name, int rank) {
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

const std::map<std::string, std::function<void(Seams&, const Settings&)>>& family() {
  static const std::map<std::string, std::function<void(Seams&, const Settings&)>> faults{
      {"bf16_reduce", reduce_in_bfloat16}, {"zeros", received_zeros},      {"lost", contribution_lost},        {"stale_part", contribution_stale},
      {"stale", gradient_stale},           {"local", not_reduced},         {"scaled", gradient_scaled},        {"swapped", gradients_swapped},
      {"streams", streams_equal},          {"row", row_changed},           {"exchanged", ranks_exchanged},     {"clip_one", clip_on_one_rank},
      {"clip_limit", clip_to_other_limit}, {"opt_steps", optimizer_steps}, {"sched_behind", scheduler_behind}, {"moved", parameters_moved},
      {"part_scaled", share_scaled}};
  return faults;
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
  const std::string word = text, name = word.substr(0, word.find(':'));
  const auto plain = catalogue().find(word);
  const auto member = family().find(name);
  if (plain != catalogue().end()) {
    plain->second(seams);
  } else if (member != family().end()) {
    member->second(seams, settings_of(word.substr(std::min(word.size(), name.size() + 1))));
  } else {
    std::fprintf(stderr, "no fault '%s' is known\n", text);
    std::_Exit(2);
  }
}

// Set before main(): the runtime's one hook is null in the product.
const bool kInstalled = [] {
  samerun::detail::seam_decorator = &decorate;
  return true;
}();

}  // namespace
