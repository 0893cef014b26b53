// The part of Engine that turns the live objects into a tree of leaves and back.

#include <torch/optim.h>
#include <torch/types.h>

#include <algorithm>
#include <set>

#include "engine.h"
#include "optimizer_leaves.h"
#include "samerun/core/error.h"
#include "streams.h"

namespace samerun::detail {
namespace {

[[noreturn]] void misuse(const std::string& text, int rank) {
  throw Error(ErrorCode::kInvalidArgument, text, {}, rank);
}
[[noreturn]] void unfit(const std::string& text, Error::Context context = {}) {
  throw Error(ErrorCode::kCheckpoint, text, std::move(context));
}

std::string joined(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const auto value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return text;
}

std::vector<std::int64_t> split(const std::string& text) {
  std::vector<std::int64_t> values;
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find(',', at), text.size() - 1) + 1) values.push_back(std::stoll(text.substr(at)));
  return values;
}

/// Names of tensors that the file does not repeat: all of a group of tied ones but the first.
std::set<std::string> tied_names(const Trainable& model) {
  std::set<std::string> names;
  for (const auto& group : model.aliases()) names.insert(group.begin() + 1, group.end());
  return names;
}

std::string described(const at::Tensor& tensor) {
  return dtype_name(tensor) + " " + c10::str(tensor.sizes());
}

/// The first word of each path below `prefix`.
std::set<std::string> first_words(const StateTree& tree, const std::string& prefix) {
  std::set<std::string> words;
  for (const auto& item : tree.below(prefix)) words.insert(item.first.substr(0, item.first.find('/')));
  return words;
}

void require_names(const std::string& what, const std::set<std::string>& mine, const std::set<std::string>& saved, const std::string& advice) {
  for (const auto& name : mine) {
    if (saved.count(name) == 0) unfit("the checkpoint has no " + what + " " + name + "; " + advice);
  }
  for (const auto& name : saved) {
    if (mine.count(name) == 0) unfit("this run has no " + what + " " + name + ", the checkpoint has; " + advice);
  }
}

using Aliases = std::vector<std::vector<std::string>>;

void check_ties(const Aliases& of, const Aliases& other, const std::string& here, const std::string& there) {
  for (const auto& group : of) {
    if (std::find(other.begin(), other.end(), group) == other.end())
      unfit(here + " " + group[0] + " and " + group[1] + " are one tensor, " + there + " they are not; tie the parameters as the saving program did");
  }
}

}  // namespace

/// The live state. Collective: the ranks take the order of buckets from rank 0.
StateTree Engine::capture_state() {
  StateTree tree;
  const auto tied = tied_names(model_);
  for (const auto& item : model_.state()) {
    if (tied.count(item.name) == 0) tree.set("model/" + item.name, item.tensor);
  }
  capture_optimizer(*optimizer_, model_.state(), tree);
  if (schedule_) tree.set("scheduler/steps", schedule_steps_);
  tree.set("run/seed", options.seed.value());
  tree.set("run/accumulation_steps", options.accumulation_steps.value());
  tree.set("run/replay_world", static_cast<std::int64_t>(mode.replay_world));
  tree.set("position/optimizer_step", position.optimizer_step);
  tree.set("position/micro_step", position.micro_step);
  tree.set("position/samples_seen", position.samples_seen);
  tree.set("position/epoch", position.epoch);
  tree.set("position/batch_index", position.batch_index, true);
  tree.set("position/next_epoch", !pass_open && epoch_trained ? epoch + 1 : epoch);
  for (const auto& loader : loaders_) {
    const auto path = "loader/" + loader->name + "/";
    tree.set(path + "plan", loader->plan);
    tree.set(path + "pass", loader->pass);
    if (!loader->training) continue;
    const bool in_hand = current.valid && current.backward && loader->cursor >= 0;
    tree.set(path + "cursor", pass_open ? loader->cursor + (in_hand ? 1 : 0) : -1);
  }
  if (const auto order = reducer_->ready_order(); !order.empty()) tree.set("reducer/ready_order", joined(order));
  tree.set("rank/generator", generator_state(), true);
  capture_window(tree);
  metrics.capture(tree);
  capture_objects(tree);
  return tree;
}

void Engine::capture_objects(StateTree& tree) const {
  for (const auto& [name, object] : objects_) {
    tree.set("user/" + name, "", true);  // also of an object without any state
    const auto state = object->state();
    for (const auto& [key, text] : state.values) tree.set("user/" + name + "/" + key, text, true);
    for (const auto& [key, tensor] : state.tensors) {
      if (state.values.count(key) != 0) misuse("the object '" + name + "' has a tensor and a text of one name, '" + key + "'", rank());
      tree.set("user/" + name + "/" + key, tensor, true);
    }
  }
}

void Engine::capture_window(StateTree& tree) const {
  if (window.local_rounds == 0) return;
  tree.set("window/numerator", window.numerator, true);
  tree.set("window/denominator", window.denominator, true);
  tree.set("window/absolute_numerator", window.absolute_numerator, true);
  tree.set("window/samples", window.samples, true);
  tree.set("window/micro_batches", window.micro_batches, true);
  tree.set("window/rounds", window.local_rounds, true);
  if (recording()) {
    tree.set("window/root_before", to_hex(root_before_), true);
    tree.set("window/root_moments_before", to_hex(root_moments_before_), true);
  }
  if (const auto pending = statistics_.pending(); pending.defined()) tree.set("window/statistics", pending, true);
  const auto running = reducer_->running();
  for (std::size_t a = 0; a < running.size(); ++a) {
    for (std::size_t i = 0; i < running[a].size(); ++i) {
      if (running[a][i].defined()) tree.set("window/gradient/" + std::to_string(a) + "/" + model_.parameters()[i].name, running[a][i], true);
    }
  }
}

/// Whether the state fits this program. Changes nothing.
void Engine::check_state(const Manifest& manifest, const StateTree& tree) const {
  check_model(manifest, tree);
  if (mode.load_weights_only) return;
  check_optimizer(*optimizer_, model_.state(), tree);
  const auto same = [&](const std::string& path, const std::string& mine) {
    if (tree.text(path) != mine)
      unfit("this run is set otherwise than the one that was saved: " + path, {{"checkpoint", tree.text(path)}, {"this run", mine}});
  };
  same("run/seed", std::to_string(options.seed.value()));
  same("run/accumulation_steps", std::to_string(options.accumulation_steps.value()));
  same("run/replay_world", std::to_string(mode.replay_world));
  if (tree.has("scheduler/steps") != static_cast<bool>(schedule_))
    unfit(schedule_ ? "the checkpoint has no learning-rate schedule, this run has one"
                    : "the checkpoint has a learning-rate schedule, this run has none");
  std::set<std::string> loaders, objects;
  for (const auto& loader : loaders_) loaders.insert(loader->name);
  for (const auto& [name, object] : objects_) objects.insert(name);
  require_names("loader", loaders, first_words(tree, "loader/"), "prepare it before load_state()");
  require_names("registered object", objects, first_words(tree, "user/"), "register it before load_state()");
  for (const auto& loader : loaders_) same("loader/" + loader->name + "/plan", loader->plan);
}

void Engine::check_model(const Manifest& manifest, const StateTree& tree) const {
  const auto tied = tied_names(model_);
  std::set<std::string> names;
  for (const auto& item : model_.state()) {
    if (tied.count(item.name) != 0) continue;
    names.insert(item.name);
    if (!tree.has("model/" + item.name)) continue;
    const auto& saved = tree.tensor("model/" + item.name);
    if (saved.scalar_type() != item.tensor.scalar_type() || saved.sizes() != item.tensor.sizes())
      unfit("the checkpoint is of another model: tensor " + item.name + " has another dtype or shape",
            {{"checkpoint", described(saved)}, {"this run", described(item.tensor)}});
  }
  check_ties(model_.aliases(), manifest.aliases, "in this model", "in the checkpoint");
  check_ties(manifest.aliases, model_.aliases(), "in the checkpoint", "in this model");
  std::set<std::string> saved;
  for (const auto& item : tree.below("model/")) saved.insert(item.first);
  require_names("tensor", names, saved, "the checkpoint is of another model");
}

void Engine::apply_objects(const StateTree& tree) {
  for (const auto& [name, object] : objects_) {
    ObjectState state;
    for (const auto& [key, leaf] : tree.below("user/" + name + "/")) {
      if (leaf->tensor.defined()) {
        state.tensors[key] = leaf->tensor.clone();
      } else {
        state.values[key] = leaf->text;
      }
    }
    object->load_state(state);
  }
}

void Engine::apply_state(const StateTree& tree) {
  const auto tied = tied_names(model_);
  for (const auto& item : model_.state()) {
    // A fault of a test may have dropped a leaf; it is told after the load, as any other that is lost.
    if (tied.count(item.name) == 0 && tree.has("model/" + item.name)) at::Tensor(item.tensor).copy_(tree.tensor("model/" + item.name));
  }
  remember_parameters();
  if (mode.load_weights_only) return;
  while (schedule_ && schedule_steps_ < tree.integer("scheduler/steps")) advance_schedule();
  apply_optimizer(*optimizer_, model_.state(), tree);  // after the schedule, which sets rates
  position.optimizer_step = tree.integer("position/optimizer_step");
  position.micro_step = tree.integer("position/micro_step");
  position.samples_seen = tree.integer("position/samples_seen");
  position.epoch = tree.integer("position/epoch");
  position.batch_index = tree.integer("position/batch_index");
  first_epoch = epoch = tree.integer("position/next_epoch");
  epoch_trained = false;
  for (const auto& loader : loaders_) {
    const auto path = "loader/" + loader->name + "/";
    loader->pass = tree.integer(path + "pass");
    if (!loader->training) continue;
    loader->cursor = tree.integer(path + "cursor");
    loader->resumed = loader->cursor >= 0;
    pass_open = pass_open || loader->resumed;
  }
  if (tree.has("reducer/ready_order")) reducer_->set_ready_order(split(tree.text("reducer/ready_order")));
  set_generator_state(tree.tensor("rank/generator"));
  apply_window(tree);
  metrics.apply(tree);
  check_stop();
}

void Engine::apply_window(const StateTree& tree) {
  if (!tree.has("window/rounds")) return;
  window = {};
  window.numerator = tree.number("window/numerator");
  window.denominator = window.local_denominator = tree.number("window/denominator");
  window.absolute_numerator = tree.number("window/absolute_numerator");
  window.samples = tree.integer("window/samples");
  window.micro_batches = tree.integer("window/micro_batches");
  window.local_rounds = tree.integer("window/rounds");
  begin_window();  // digests, where the saving run took none
  if (recording() && tree.has("window/root_before")) {
    root_before_ = digest_from_hex(tree.text("window/root_before"));
    root_moments_before_ = digest_from_hex(tree.text("window/root_moments_before"));
  }
  statistics_.set_pending(tree.has("window/statistics") ? tree.tensor("window/statistics") : at::Tensor());
  auto running = reducer_->running();
  const auto& parameters = model_.parameters();
  for (std::size_t a = 0; a < running.size(); ++a) {
    running[a].assign(parameters.size(), {});
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto path = "window/gradient/" + std::to_string(a) + "/" + parameters[i].name;
      if (tree.has(path)) running[a][i] = tree.tensor(path).to(parameters[i].tensor.device(), /*non_blocking=*/false, /*copy=*/true);
    }
  }
  reducer_->set_running(std::move(running));
}

}  // namespace samerun::detail
