// Faults in what a resumed run takes over: with leaf=1 in the leaves that are loaded, otherwise after the runtime has found that all are there.
#include <torch/torch.h>

#include <memory>
#include <optional>

#include "inject.h"

namespace samerun::fault {
namespace {

using detail::CheckpointContext;
using detail::StateTree;
using torch::optim::AdamWParamState;
using torch::optim::Optimizer;

/// Adam's state of each parameter in turn, of `tensor` only where that is set.
template <class Change>
void change_moments(Optimizer& optimizer, const Settings& settings, Change change) {
  std::size_t index = 0;
  for (auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (found != optimizer.state().end() && settings.at_tensor(index)) change(static_cast<AdamWParamState&>(*found->second));
      ++index;
    }
  }
}

/// The leaves whose path begins with `prefix` and ends with `suffix`.
template <class Change>
void change_leaves(StateTree& tree, const std::string& prefix, const std::string& suffix, Change change) {
  for (auto& [path, leaf] : tree.leaves) {
    if (path.starts_with(prefix) && path.ends_with(suffix)) change(leaf);
  }
}

void install(Seams& seams, const Settings& settings, std::function<void(StateTree&, const CheckpointContext&)> in_leaves,
             std::function<void(Optimizer&, const CheckpointContext&)> after) {
  if (!in_resumed_run()) return;
  if (settings.integer("leaf", 0) == 1) {
    seams.state_loaded = std::move(in_leaves);
  } else {
    seams.after_load = std::move(after);
  }
}

// Moments are not loaded, or come `factor` times as large.
void moments_changed(Seams& seams, const Settings& settings) {
  const double factor = settings.number("factor", 0);
  install(
      seams, settings,
      [=](StateTree& tree, const CheckpointContext&) {
        change_leaves(tree, "optimizer/", "/exp_avg", [=](detail::Leaf& leaf) { leaf.tensor = leaf.tensor * factor; });
      },
      [=](Optimizer& optimizer, const CheckpointContext&) {
        change_moments(optimizer, settings, [=](AdamWParamState& state) {
          state.exp_avg().mul_(factor);
          state.exp_avg_sq().mul_(factor);
        });
      });
}

// The step that bias is corrected for is `factor` times what it was, and `add` more.
void step_count_changed(Seams& seams, const Settings& settings) {
  const auto changed = [=](std::int64_t step) {
    return static_cast<std::int64_t>(settings.number("factor", 1) * static_cast<double>(step)) + settings.integer("add", 0);
  };
  install(
      seams, settings,
      [=](StateTree& tree, const CheckpointContext&) {
        change_leaves(tree, "optimizer/", "/step", [=](detail::Leaf& leaf) { leaf.text = std::to_string(changed(std::stoll(leaf.text))); });
      },
      [=](Optimizer& optimizer, const CheckpointContext&) {
        change_moments(optimizer, settings, [=](AdamWParamState& state) { state.step(changed(state.step())); });
      });
}

// The schedule starts again (leaf=1); the learning rate that it had last set is not applied until it sets the next.
void schedule_lost(Seams& seams, const Settings& settings) {
  install(
      seams, settings,
      [](StateTree& tree, const CheckpointContext&) {
        change_leaves(tree, "scheduler/steps", "", [](detail::Leaf& leaf) { leaf.text.assign(1, '0'); });
      },
      [=](Optimizer& optimizer, const CheckpointContext&) {
        for (auto& group : optimizer.param_groups()) group.options().set_lr(settings.number("rate", 1e-3));
      });
}

// Parameters of `rank` are not those that were loaded: `factor` times as large.
void parameters_changed(Seams& seams, const Settings& settings) {
  install(seams, settings, nullptr, [=](Optimizer& optimizer, const CheckpointContext& context) {
    std::size_t index = 0;
    if (!settings.at_rank(context.rank)) return;
    for (auto& group : optimizer.param_groups()) {
      for (auto& parameter : group.params()) {
        if (settings.at_tensor(index++)) parameter.data().mul_(settings.number("factor", 1.000001));
      }
    }
  });
}

// Random states: `how` 0, of `rank` they stay as the new process has them; 1, every rank gets rank 0's. Libtorch's, or (own=1) the program's own.
void random_state_lost(Seams& seams, const Settings& settings) {
  if (!in_resumed_run()) return;
  auto communicator = std::make_shared<std::shared_ptr<detail::Communicator>>();
  seams.communicator = [communicator](std::shared_ptr<detail::Communicator> given) { return *communicator = std::move(given); };
  const std::string prefix = settings.integer("own", 0) == 1 ? "user/" : "rank/generator";
  seams.state_loaded = [=](StateTree& tree, const CheckpointContext& context) {
    change_leaves(tree, prefix, "generator", [&](detail::Leaf& leaf) {
      if (settings.integer("how", 0) == 1) {
        leaf.tensor = leaf.tensor.clone();
        (*communicator)->broadcast(leaf.tensor, 0);
      } else if (settings.at_rank(context.rank)) {
        leaf.tensor = at::detail::getDefaultCPUGenerator().get_state();
      }
    });
  };
}

// A training loader goes on at batch `to`, or `add` batches from where it was.
void cursor_moved(Seams& seams, const Settings& settings) {
  if (!in_resumed_run()) return;
  seams.resume_cursor = [=](std::int64_t cursor, const std::string&, const CheckpointContext&) -> std::int64_t {
    return settings.integer("to", -1) >= 0 ? settings.integer("to", 0) : cursor + settings.integer("add", 0);
  };
}

// The place within the epoch is restored, the epoch's order is that of epoch 0: in `epochs` epochs from the one that is resumed.
void order_lost(Seams& seams, const Settings& settings) {
  if (!in_resumed_run()) return;
  seams.batch = [settings, first = std::optional<std::int64_t>()](const Plan& plan, std::int64_t epoch, std::int64_t round, int rank,
                                                                  bool training) mutable {
    if (!first && training && epoch > 0) first = epoch;
    const bool lost = training && first && epoch < *first + settings.integer("epochs", 1000);
    return plan.at(lost ? 0 : epoch, round, rank);
  };
}

}  // namespace

const Faults& state_faults() {
  static const Faults faults{
      {"moments", moments_changed},        {"step_count", step_count_changed}, {"schedule_lost", schedule_lost}, {"loaded_moved", parameters_changed},
      {"random_state", random_state_lost}, {"cursor", cursor_moved},           {"order_lost", order_lost}};
  return faults;
}

}  // namespace samerun::fault
