// The part of Engine that saves and loads the training state.

#include <torch/types.h>
#include <torch/version.h>

#include <csignal>
#include <filesystem>
#include <limits>

#include "checkpoint_store.h"
#include "engine.h"
#include "optimizer_leaves.h"
#include "outcome.h"
#include "samerun/core/clock.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "streams.h"

namespace samerun::detail {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kPoisonSeed = 0xdeadbeef;

[[noreturn]] void misuse(const std::string& text, int rank) {
  throw Error(ErrorCode::kInvalidArgument, text, {}, rank);
}

bool folder_name_fits(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos && name.size() <= 128;
}

}  // namespace

void Engine::register_state(const std::string& name, Stateful& object) {
  if (name.empty() || name.find('/') != std::string::npos) misuse("register_for_checkpointing() takes a name without a slash", rank());
  for (const auto& [taken, other] : objects_) {
    if (taken == name) misuse("register_for_checkpointing(): the name '" + name + "' is taken; choose another", rank());
  }
  objects_.emplace_back(name, &object);
}

std::shared_ptr<LoaderProgress> Engine::add_loader(LoaderProgress loader) {
  int same = 1;
  for (const auto& other : loaders_) same += other->name.substr(0, other->name.find('#')) == loader.name ? 1 : 0;
  if (same > 1) loader.name += "#" + std::to_string(same);
  loaders_.push_back(std::make_shared<LoaderProgress>(std::move(loader)));
  return loaders_.back();
}

void Engine::advance_schedule() {
  schedule_();
  schedule_steps_ += 1;
}

void Engine::start_training_pass(LoaderProgress& loader) {
  if (resuming() && !loaded_)
    throw Error(ErrorCode::kConfig,
                "this run is to go on from a checkpoint, but the program trains without having loaded it; after prepare() add the line: "
                "if (accelerator.resuming()) accelerator.load_state();",
                {{"checkpoint", mode.resume_from}}, rank());
  if (pass_open && !loader.resumed) abandon_window();
  pass_open = true;
  for (const auto& other : loaders_) {
    if (other.get() != &loader && other->training) other->cursor = -1;
  }
  if (!loader.resumed) loader.cursor = 0;
  if (loader.resumed && seams.resume_cursor)
    loader.cursor = seams.resume_cursor(loader.cursor, loader.name, {position.optimizer_step, rank(), launch.world_size});
  loader.resumed = false;
}

void Engine::between_batches() {
  if (mode.save_at < 0 || saved_at_ || !prepared()) return;
  if (position.optimizer_step != mode.save_at || window.local_rounds != mode.save_at_micro) return;
  saved_at_ = true;
  const SpanTimer timer(spans, SpanKind::kCheckpoint);
  write_state("save-at");
}

void Engine::check_kill() {
  if (mode.kill_at < 0 || position.optimizer_step != mode.kill_at) return;
  observers().flush();
  try {
    communicator->barrier();  // nobody still waits for this rank's part of the step
  } catch (const std::exception&) {
    // Another rank is dead already.
  }
  ::raise(SIGKILL);
}

/// Saving is possible where a loop's body is over, or outside of loops. `by_itself`: the loader's own call between two batches.
void Engine::check_point(bool by_itself) const {
  if (!prepared()) misuse("save_state() comes after prepare(model, optimizer, ...)", rank());
  if (window.reduced) misuse("save_state() comes after the optimizer's step(): the window's gradients are reduced and not yet used", rank());
  if (!by_itself && current.valid && current.entered && !current.backward)
    misuse("save_state() between a batch's forward and backward pass: call it at the end of the loop's body", rank());
}

std::string Engine::save_state(const std::string& name) {
  if (!mode.checkpoints) return "";
  check_point(false);
  if (evaluation.valid) misuse("save_state() inside a pass over an evaluation loader: call it after the loop", rank());
  if (!name.empty() && !folder_name_fits(name))
    misuse("save_state() takes the name of a folder, without slash and not starting with a dot, not '" + name + "'", rank());
  const SpanTimer timer(spans, SpanKind::kCheckpoint);
  return write_state(name.empty() ? default_checkpoint_name(position.optimizer_step) : name);
}

std::string Engine::write_state(const std::string& name) {
  const torch::NoGradGuard guard;
  check_point(true);
  auto tree = capture_state();
  const auto live = digests_of(tree);
  std::vector<std::string> lines{"name=" + name, "total_limit=" + std::to_string(options.total_limit.value())};
  for (const auto& [path, leaf] : tree.leaves) lines.push_back(path + (leaf.per_rank ? "" : "=" + to_hex(live.at(path))));
  try {
    require_agreement(*communicator, "what is to be saved", lines);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kRendezvous) throw;
    throw Error(ErrorCode::kCheckpoint, error.what());
  }
  const CheckpointContext context{position.optimizer_step, rank(), launch.world_size};
  if (seams.state_saved) seams.state_saved(tree, context);
  SaveRequest request;
  request.folder = fs::absolute(options.checkpoint_dir.value()).lexically_normal();
  request.name = name;
  request.tree = &tree;
  request.total_limit = options.total_limit.value();
  request.header.saved_utc_ns = utc_now_ns();
  request.header.position = position;
  request.header.libtorch = TORCH_VERSION;
  request.header.program = program_id();
  request.header.resume_command = mode.resume_command;
  request.header.aliases = model_.aliases();
  const auto committed = commit_checkpoint(*communicator, request);
  if (seams.checkpoint_committed && rank() == 0) seams.checkpoint_committed(committed.path, context);
  for (const auto& text : committed.warnings) warn("checkpoint", text);
  emit_leaves("saved", live);
  observers().on_checkpoint({position, committed.path, committed.bytes, committed.manifest_sha256});
  return committed.path;
}

void Engine::emit_leaves(const char* moment, const LeafDigests& leaves) const {
  if (!recording()) return;
  for (const auto& [path, digest] : leaves) observers().on_state_leaf({position.optimizer_step, moment, path, digest});
}

/// Rank 0's answer, so that all ranks take the same one.
std::string Engine::find_checkpoint(const std::string& folder) {
  std::string found;
  std::vector<std::string> passed_over;
  if (rank() == 0) {
    const auto wanted = folder.empty() ? mode.resume_from : folder;
    const auto home = fs::absolute(options.checkpoint_dir.value());
    if (wanted.empty()) {
      found = newest_checkpoint(home, passed_over);
    } else {
      found = fs::exists(wanted) ? fs::path(wanted) : home / wanted;
    }
    if (!found.empty()) found = fs::absolute(found).lexically_normal();
  }
  for (const auto& path : passed_over) warn("checkpoint", "passed over, its manifest does not verify: " + path);
  found = gather_texts(*communicator, found)[0];
  if (found.empty())
    throw Error(ErrorCode::kCheckpoint, "load_state() found no committed checkpoint; name its folder",
                {{"looked in", fs::absolute(options.checkpoint_dir.value()).lexically_normal()}});
  return found;
}

void Engine::load_state(const std::string& folder) {
  if (!prepared()) misuse("load_state() comes after prepare(model, optimizer, ...)", rank());
  if (pass_open || position.micro_step > 0 || window.local_rounds > 0) misuse("load_state() comes before the first batch", rank());
  const SpanTimer timer(spans, SpanKind::kCheckpoint);
  const torch::NoGradGuard guard;
  auto loaded = read_checkpoint(*communicator, find_checkpoint(folder));
  all_or_none(*communicator, ErrorCode::kCheckpoint, [&] { check_state(loaded.manifest, loaded.tree); });
  if (loaded.manifest.libtorch != TORCH_VERSION || loaded.manifest.program != program_id())
    warn("checkpoint", "it was saved by another build of the program or of libtorch; results may differ from the run that goes on");
  if (mode.poison) poison();
  auto expected = digests_of(loaded.tree);
  if (seams.state_loaded) seams.state_loaded(loaded.tree, {loaded.manifest.position.optimizer_step, rank(), launch.world_size});
  // The program's own objects first: only they can still refuse.
  if (!mode.load_weights_only) all_or_none(*communicator, ErrorCode::kCheckpoint, [&] { apply_objects(loaded.tree); });
  apply_state(loaded.tree);
  loaded_ = true;
  const auto live = digests_of(capture_state());
  emit_leaves("loaded", live);
  observers().flush();  // evidence of the load outlives a rank that is stopped because another fails
  all_or_none(*communicator, ErrorCode::kCheckpoint, [&] {
    if (const auto difference = first_difference(expected, live, mode.load_weights_only ? "model/" : ""))
      throw Error(ErrorCode::kCheckpoint, "after load_state() the live state is not the saved one: " + *difference, {{"folder", loaded.path}},
                  rank());
  });
  if (seams.after_load) seams.after_load(*optimizer_, {position.optimizer_step, rank(), launch.world_size});
  observers().on_event({"info", "checkpoint-loaded", loaded.path, position.optimizer_step});
}

/// So that what a load leaves out cannot pass for what it restores.
void Engine::poison() {
  seed_generator(kPoisonSeed);
  for (const auto& item : model_.state()) {
    if (item.tensor.is_floating_point()) at::Tensor(item.tensor).fill_(std::numeric_limits<double>::quiet_NaN());
  }
  poison_optimizer(*optimizer_);
}

}  // namespace samerun::detail
