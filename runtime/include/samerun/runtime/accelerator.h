#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "samerun/runtime/checkpoint.h"
#include "samerun/runtime/handles.h"
#include "samerun/runtime/loader.h"
#include "samerun/runtime/metric.h"
#include "samerun/runtime/options.h"

namespace torch::nn {
class Module;
}

namespace samerun {

enum class ReduceOp { kSum, kMean, kMin, kMax };

/// One window position, from accumulate(): RAII over the handling of a micro-batch.
class Window {
 public:
  ~Window();  // NOLINT(performance-trivially-destructible): a window that is only held must not look like an unused variable
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  /// True for the last micro-batch of the window: backward() reduces, step() steps.
  bool sync_gradients() const { return sync_; }

 private:
  friend class Accelerator;
  Window(detail::Engine* engine, bool sync) : engine_(engine), sync_(sync) {}
  detail::Engine* engine_;
  bool sync_;
};

/// Epoch numbers of a run, for `for (auto epoch : accelerator.epochs(3))`. Ends early when the run was asked to stop.
class Epochs {
 public:
  class Iterator {
   public:
    std::int64_t operator*() const { return epoch_; }
    Iterator& operator++();
    bool operator!=(const Iterator& end) const;

   private:
    friend class Epochs;
    Iterator(detail::Engine* engine, std::int64_t epoch) : engine_(engine), epoch_(epoch) {}
    detail::Engine* engine_;
    std::int64_t epoch_;
  };
  Iterator begin() const;
  Iterator end() const;

 private:
  friend class Accelerator;
  Epochs(detail::Engine* engine, std::int64_t count) : engine_(engine), count_(count) {}
  detail::Engine* engine_;
  std::int64_t count_;
};

/// Runs a plain training loop on one rank or several. One object a process, made before the model so that the seed and the
/// number of threads are set. Rank, world size and record come from the environment (`samerun launch`, torchrun, Slurm, MPI).
/// Threads: the thread that made it.
class Accelerator {
 public:
  /// Collective over all ranks of the job: rendezvous, then a comparison of program, libtorch and settings over ranks.
  /// Throws kRendezvous, kConfig, kTimeout.
  explicit Accelerator(Options options);
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  int rank() const;
  int world_size() const;
  int local_rank() const;
  /// Where this rank computes, as options.device asked and as was found: move the model there before the optimizer is made. Batches come there.
  c10::Device device() const;
  bool is_main_process() const { return rank() == 0; }

  /// Makes this rank's loader. Collective: the ranks compare the dataset's name and size.
  Loader prepare_loader(std::shared_ptr<Dataset> dataset, const LoaderOptions& options);

  /// Takes charge of a model (a torch::nn module holder or a shared_ptr to a module), its optimizer and its learning-rate
  /// schedule; returns the model and the handles to use from here on. Once a process. Collective: names, shapes and
  /// dtypes are compared over ranks, then rank 0's parameters and buffers are broadcast. The objects must outlive the Accelerator's use.
  /// Throws kInvalidArgument (called twice, nothing to train), kRendezvous (models differ over ranks).
  template <class Model>
  std::tuple<Model, Optimizer, Scheduler> prepare(Model model, torch::optim::Optimizer& optimizer, LrSchedule& scheduler) {
    prepare_module(module_of(model), optimizer);
    return {std::move(model), optimizer_handle(), scheduler_handle([&scheduler] { scheduler.step(); })};
  }
  template <class Model, class Schedule>
  std::tuple<Model, Optimizer, Scheduler> prepare(Model model, torch::optim::Optimizer& optimizer, Schedule& scheduler) {
    prepare_module(module_of(model), optimizer);
    return {std::move(model), optimizer_handle(), scheduler_handle([&scheduler] { scheduler.step(); })};
  }
  template <class Model>
  std::tuple<Model, Optimizer> prepare(Model model, torch::optim::Optimizer& optimizer) {
    prepare_module(module_of(model), optimizer);
    return {std::move(model), optimizer_handle()};
  }

  Epochs epochs(std::int64_t count);

  /// Opens the handling of the current batch of the training loader. Throws kInvalidArgument when entered twice for one batch.
  Window accumulate();
  template <class Model>
  Window accumulate(const Model&) {
    return accumulate();
  }

  /// Adds the gradient of weight * loss; at the window's end reduces over ranks and divides by the sum of all weights,
  /// so uneven batches and windows are right. `loss`: a scalar, the mean over `weight` items. Without a weight: the batch's
  /// real rows. Collective at the window's end. Throws kInvalidArgument (no batch, loss not a scalar, weight negative or
  /// not finite, all weights 0), kCommunication, and names parameters that got no gradient on this rank.
  void backward(const at::Tensor& loss, double weight = std::numeric_limits<double>::quiet_NaN());

  /// Scales the reduced gradients so that their global 2-norm is at most max_norm; returns the norm before.
  /// At a window's end only, after backward(): otherwise throws kInvalidArgument. Not collective: gradients are replicated.
  double clip_grad_norm(double max_norm);
  template <class Parameters>
  double clip_grad_norm(const Parameters&, double max_norm) {
    return clip_grad_norm(max_norm);
  }

  /// Concatenates `tensor` ([n, ...], any n a rank, same trailing shape and dtype; 0-d counts as [1]) of all ranks in rank order. Collective.
  at::Tensor gather(const at::Tensor& tensor);
  /// As gather, without padding and filler rows: over one pass of an evaluation loader exactly one row a sample.
  /// `tensor`: [rows of the current batch, ...]. Throws kInvalidArgument when its first dimension is not the batch's. Collective.
  at::Tensor gather_for_metrics(const at::Tensor& tensor);
  /// Element-wise over ranks; same shape and dtype. Returns a new tensor. Collective.
  at::Tensor reduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::kSum);
  /// Rank `root`'s values, in place. Collective.
  void broadcast(at::Tensor& tensor, int root = 0);
  void wait_for_everyone();                   ///< Collective barrier.
  void print(const std::string& line) const;  ///< On rank 0 only, to standard output, with a newline.

  /// Adds the current batch's rows to the metric `name`, this rank only, no communication. `values`: one row a sample of the batch in
  /// hand, [rows] or [rows, columns], any dtype; padding is left out. The record keeps them by sample. Throws kInvalidArgument: a
  /// value already reduced over the batch, another rule than before, an average of what is no average (F1, AUC, ...).
  void metric(const std::string& name, const at::Tensor& values, const MetricRule& rule);
  /// The metric over all samples of all ranks since it was last asked for, the same on every rank and for every number of ranks: rows
  /// are taken in order of sample id, sums in float64. Records it. Collective. Throws kInvalidArgument where nothing was added on any rank.
  double metric_value(const std::string& name);

  /// True where this run is to go on from a checkpoint (`samerun resume`): then load_state() comes before the first batch.
  bool resuming() const;
  /// Writes a checkpoint, whole or not at all; returns its folder ("" where a pair's run keeps none). Collective. `name`: a folder name;
  /// default "step-N". Throws kCheckpoint on every rank alike; the checkpoints that were there stay. See options.total_limit.
  std::string save_state(const std::string& name = "");
  /// Loads a checkpoint: `folder`, or the one that `samerun resume` names, or the newest committed of options.checkpoint_dir. After prepare(), before
  /// the first batch. Collective. Throws kCheckpoint (none, of another model or world size, newer version) or kCorruption (bytes that are
  /// not what was written), naming file or leaf, on every rank alike; nothing live has changed then.
  void load_state(const std::string& folder = "");
  /// Adds an object of the program's own to each checkpoint. `object` must outlive the Accelerator's use. Throws kInvalidArgument: name taken.
  void register_for_checkpointing(const std::string& name, Stateful& object);

  /// Stores values with the current step and epoch; the metric is rank 0's, and where the other ranks log it too they should have the same.
  /// Nothing is known of how it was computed: prefer metric(). Not collective.
  void log(const std::vector<std::pair<std::string, double>>& values);

 private:
  template <class Model>
  static std::shared_ptr<torch::nn::Module> module_of(const Model& model) {
    if constexpr (requires { model.ptr(); }) {
      return model.ptr();  // a module holder
    } else {
      return model;  // a shared_ptr to a module
    }
  }
  void prepare_module(std::shared_ptr<torch::nn::Module> module, torch::optim::Optimizer& optimizer);
  Optimizer optimizer_handle();
  Scheduler scheduler_handle(std::function<void()> advance);

  std::unique_ptr<detail::Engine> engine_;
};

}  // namespace samerun
