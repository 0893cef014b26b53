#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "communicator.h"
#include "compute_device.h"
#include "launch_environment.h"
#include "locked.h"
#include "manifest.h"
#include "metric_store.h"
#include "reducer.h"
#include "running_statistics.h"
#include "samerun/core/event.h"
#include "samerun/runtime/checkpoint.h"
#include "samerun/runtime/loader.h"
#include "samerun/runtime/options.h"
#include "schedule.h"
#include "seams.h"
#include "span.h"
#include "state_tree.h"
#include "trainable.h"

namespace samerun::detail {

/// The micro-batch in the program's hands.
struct CurrentBatch {
  bool valid = false;
  bool training = false;
  bool entered = false;   ///< accumulate() was called.
  bool backward = false;  ///< backward() was called.
  bool last = false;      ///< Ends its window.
  std::int64_t rows = 0;  ///< Rows of data, padding included.
  std::int64_t real = 0;
  std::string purpose;               ///< Of its loader.
  std::int64_t epoch = 0, pass = 0;  ///< Of the pass over its loader.
  Slot slot;
};

/// Sums over the window so far, this rank; after reduction over all ranks.
struct WindowState {
  double numerator = 0, denominator = 0;
  std::int64_t samples = 0, micro_batches = 0;
  std::int64_t local_rounds = 0;
  double local_denominator = 0;
  double absolute_numerator = 0;  ///< Sum of |weight * loss|, for the S1 bound of the loss.
  bool reduced = false;           ///< The last backward() was done; gradients are final.
  bool drew_random = false;
  double norm = -1, clip_max = -1, clip_factor = 1;
};

/// How far one loader has come: what a checkpoint keeps of it.
struct LoaderProgress {
  std::string name;  ///< Its purpose; "train#2" for a second loader of that purpose.
  std::string plan;  ///< Its options, as text: a position means something in this plan only.
  bool training = false;
  std::int64_t pass = 0;     ///< Passes that came to their end.
  std::int64_t cursor = -1;  ///< Batches done in the training pass under way; -1 where there is none.
  bool resumed = false;      ///< The next pass goes on at `cursor`.
};

/// What stands behind an Accelerator and its handles: one object a process, shared by reference.
class Engine {
 public:
  explicit Engine(Options options);
  ~Engine();

  // Set once, in the constructor.
  Options options;
  LaunchInfo launch;
  Mode mode;
  Seams seams;
  ComputeDevice compute;
  std::shared_ptr<Communicator> communicator;

  int rank() const { return launch.rank; }
  /// World size of the plan: of the replayed ranks where one process replays several.
  int plan_world() const { return mode.replay_world > 0 ? mode.replay_world : launch.world_size; }
  bool recording() const { return !options.observers->empty(); }
  RunObserver& observers() const { return *options.observers; }
  void emit_setting(const std::string& key, const std::string& value, Origin origin) const;
  void warn(const std::string& kind, const std::string& text);

  // Progress.
  Position position;
  std::int64_t epoch = 0;
  bool epochs_in_use = false;
  bool pass_open = false;   ///< A training loader handed out a batch and has not come to its end.
  bool stopping = false;    ///< The run was asked to end here: loops hand out nothing more.
  CurrentBatch current;     ///< Of the training loader.
  CurrentBatch evaluation;  ///< Of an evaluation loader, which may run inside a training loop and leaves `current` alone.
  /// The batch handed over last: what metrics are gathered from.
  const CurrentBatch& in_hand() const { return evaluation.valid ? evaluation : current; }
  WindowState window;
  bool last_step_skipped = false;
  std::int64_t steps_per_epoch = 0;
  SpanClock spans;
  MetricStore metrics;

  // Checkpoints (engine_checkpoint.cpp).
  bool resuming() const { return !mode.resume_from.empty(); }
  std::string save_state(const std::string& name);
  void load_state(const std::string& folder);
  void register_state(const std::string& name, Stateful& object);
  std::shared_ptr<LoaderProgress> add_loader(LoaderProgress loader);
  void adopt_schedule(std::function<void()> advance) { schedule_ = std::move(advance); }
  void advance_schedule();
  void start_training_pass(LoaderProgress& loader);  ///< Throws kConfig where load_state() is still to come.
  void between_batches();                            ///< A training loader is about to hand over a batch, or to end.
  std::int64_t first_epoch = 0;                      ///< Where epochs() starts.
  bool epoch_trained = false;                        ///< A training pass of this epoch came to its end.

  // Model and optimizer, after prepare().
  void prepare(std::shared_ptr<torch::nn::Module> module, torch::optim::Optimizer& optimizer);
  bool prepared() const { return optimizer_ != nullptr; }

  void enter_window();
  void backward(const at::Tensor& loss, double weight);
  double clip(double max_norm);
  void step_optimizer();
  void zero_gradients();
  void leave_batch() const;  ///< Throws kInvalidArgument where the loop went on without backward() or step().
  void abandon_window();     ///< The loop left its loader inside a window: nothing of it stays.
  bool at_window_end() const { return current.valid && current.training && current.last; }

  void batch_handed_over(const Slot& slot, std::int64_t rows, bool training, const std::string& purpose, std::int64_t pass_epoch, std::int64_t pass);

 private:
  void announce();
  const std::string& program_id();
  void broadcast_model();
  void build_reducer();
  void capture_initial();
  void reduce_window(const at::Tensor& loss, const MicroBatch& micro);
  void count_batch(const at::Tensor& loss, double weight);
  void observe_local(const std::vector<at::Tensor>& running, const MicroBatch& micro);
  void capture_gradients(const char* stage);
  void copy_parameters();
  void scale_gradients(double scale, std::int64_t step);
  void finish_step();
  void record_step(std::int64_t step);
  void exchange_capture();
  void check_outside_updates();
  void remember_parameters();
  void note_whole_reference();
  void begin_window();
  void check_stop();
  void check_kill();
  StateTree capture_state();
  void capture_window(StateTree& tree) const;
  void capture_objects(StateTree& tree) const;
  void apply_state(const StateTree& tree);
  void apply_window(const StateTree& tree);
  void apply_objects(const StateTree& tree);
  void check_state(const Manifest& manifest, const StateTree& tree) const;
  void check_model(const Manifest& manifest, const StateTree& tree) const;
  void check_point(bool by_itself) const;
  void poison();
  std::string write_state(const std::string& name);
  std::string find_checkpoint(const std::string& folder);
  void emit_leaves(const char* moment, const LeafDigests& leaves) const;
  void fail(const std::string& text);
  static void on_terminate();

  std::shared_ptr<torch::nn::Module> module_;
  torch::optim::Optimizer* optimizer_ = nullptr;
  Trainable model_;
  std::unique_ptr<GradientReducer> reducer_;
  RunningStatistics statistics_;
  /// How a parameter looked when the handle left it.
  struct Mark {
    std::int64_t version = 0;
    Digest sample;
    bool operator==(const Mark&) const = default;
  };
  static Mark mark_of(const at::Tensor& parameter);
  std::vector<Mark> marks_;
  std::vector<GroupStep> groups_;             ///< Settings at the step's start.
  Digest root_before_, root_moments_before_;  ///< Taken as the window's first batch is handed over.
  Step step_;                                 ///< Row of the step under way.
  std::vector<TensorTrace> raw_traces_;
  std::vector<at::Tensor> before_;  ///< Parameters before the step under way.
  StepCapture capture_;             ///< Full tensors of a locked step.
  std::function<void()> schedule_;
  std::int64_t schedule_steps_ = 0;
  std::vector<std::shared_ptr<LoaderProgress>> loaders_;
  std::vector<std::pair<std::string, Stateful*>> objects_;
  std::string backend_found_;
  std::string program_id_;
  bool loaded_ = false;
  bool saved_at_ = false;  ///< The save that mode.save_at asks for is done.
  std::uint64_t random_before_ = 0;
  bool warned_random_ = false;
  bool ended_ = false;
  int uncaught_at_start_ = 0;
};

}  // namespace samerun::detail
