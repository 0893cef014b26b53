#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "samerun/core/digest.h"
#include "samerun/core/position.h"

/// What a run tells its observers: plain values, no tensor. Steps and epochs count from 0. Ranks are world ranks, or
/// virtual ranks where one process replays the plan of several.
namespace samerun {

struct RankStart {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  std::int64_t pid = 0;
  std::string host;
  std::string build_id;  ///< ELF build id (or digest) of the program.
  std::int64_t utc_ns = 0;
  std::int64_t monotonic_ns = 0;
};

struct SettingValue {
  std::string key, value, origin;
};

/// One fact of the environment. A fact that could not be had has an empty value and a reason in `why_null`.
struct EnvironmentFact {
  std::string key, value, source, why_null;
};

struct DatasetSeen {
  std::string purpose;    ///< Loader's purpose: "train", "evaluation", ...
  std::int64_t size = 0;  ///< Samples in the dataset.
  std::int64_t rows = 0;  ///< Distinct real samples whose contents are in `digest` (this rank, first pass).
  Digest digest;          ///< Sum modulo 2^128 of the digests of (id, contents): order-free, adds up over ranks.
};

/// One micro-batch as handed to the program.
struct Shard {
  std::string purpose;
  std::int64_t epoch = 0;
  std::int64_t pass = 0;  ///< Number of this pass over the loader, from 0 (evaluation may run twice an epoch).
  std::int64_t round = 0;
  std::int64_t global_batch = 0;
  std::int64_t step = -1;         ///< Optimizer step it contributes to; -1 for evaluation.
  int rank = 0;                   ///< Rank, or virtual rank in a replay.
  std::vector<std::int64_t> ids;  ///< Row order; ids[real..] are padding.
  std::int64_t real = 0;
  bool filler = false;
  std::uint64_t stream_key = 0;
  Digest digest;  ///< Contents of the batch as handed over (data, then target), in the input's dtype.
};

/// One optimizer step as this rank saw it.
struct Step {
  Position position;  ///< At the step's end.
  std::int64_t step = 0;
  std::int64_t micro_batches = 0;    ///< Of the window, over all ranks, fillers included.
  std::int64_t samples_counted = 0;  ///< Real samples that contributed, over all ranks, as counted.
  std::int64_t samples_set = 0;      ///< The same from the plan and the settings.
  double loss_numerator = 0;         ///< Sum over window and ranks of weight * loss.
  double loss_denominator = 0;       ///< Sum of weights: what the gradient was divided by.
  double norm_raw = 0;               ///< Norm of the reduced gradient as the program's clip saw it; -1 when not clipped.
  double clip_max = -1;              ///< The limit given to clip_grad_norm; -1 when it was not called.
  double clip_factor = 1;
  bool skipped = false;                                                 ///< The optimizer did not step (non-finite gradients).
  Digest root_raw, root_clipped, root_update, root_before, root_after;  ///< Root digests: gradients, update, parameters.
  Digest root_moments_before, root_moments_after;                       ///< Optimizer state.
};

struct GroupStep {
  std::int64_t step = 0;
  std::int64_t group = 0;
  double learning_rate = 0, weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 0, momentum = 0;
  std::string optimizer;  ///< "AdamW", "SGD", ...
};

/// Stages of TensorTrace, in the order of a step.
namespace stage {
inline constexpr const char* kInitial = "initial";  ///< Parameters and buffers after prepare().
inline constexpr const char* kLocal = "local";      ///< Running local gradient after a micro-batch (locked steps only).
inline constexpr const char* kRaw = "raw";          ///< Reduced gradient, before clipping.
inline constexpr const char* kClipped = "clipped";  ///< After clipping (equal to raw when there is none).
inline constexpr const char* kUpdate = "update";    ///< Parameter after minus before.
inline constexpr const char* kState = "state";      ///< Parameters and buffers after the step.
}  // namespace stage

struct TensorTrace {
  std::int64_t step = 0;
  std::string stage;
  std::string name;
  int rank = 0;                   ///< Rank, or virtual rank in a replay.
  std::int64_t micro_batch = -1;  ///< For stage "local": index of the micro-batch among this rank's in the window.
  std::string dtype;              ///< "float32", "float64", ...
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
  Digest digest;
  double norm = 0;
  double abs_norm = -1;        ///< A of the S1 bound, in the units of the reduced gradient; -1 where not taken.
  std::vector<double> sketch;  ///< Empty where not kept.
  std::string file;            ///< Safetensors file of the full values, relative to the record; empty when none.
};

/// One distance that the reference measured at a locked step against the candidate's recorded tensors.
struct LockedRow {
  std::int64_t of_run = 0;  ///< The candidate's run.
  std::int64_t step = 0;
  std::string precision;    ///< "float32" or "float64".
  std::string stage;        ///< "local", "reduced", "norm", "clip", "update", "moment1", "moment2", "loss".
  std::string name;         ///< Tensor; empty where the row is about all.
  double distance = 0;      ///< Numerator of the test, e.g. ||D - R||.
  double scale = 0;         ///< What the limit is a multiple of, e.g. A(i), ||g||, ||p|| + ||update||.
  double common_scale = 0;  ///< alpha = <D - R, R> / <R, R>; 0 where it does not apply.
  std::int64_t terms = 0;   ///< h of the S1 bound: micro-batches summed.
  std::string text;         ///< What else a reader needs, e.g. the clip branch that matched.
};

/// One value of a metric. For rules other than "logged" numerator, denominator and rows say what it was made of.
struct Metric {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string name;
  double value = 0;
  std::string rule;        ///< "logged" for accelerator.log(); else MetricRule's word: "sum", "mean", "weighted-mean", "f1-macro", "samples".
  std::string purpose;     ///< Loader whose rows it is over; when logged, the training loader inside whose loop, or empty.
  std::int64_t pass = -1;  ///< Pass of that loader; -1 when logged.
  double numerator = 0;    ///< Of "sum" and the means, float64, added in order of sample id.
  double denominator = 0;  ///< Rows, or the sum of weights.
  std::int64_t rows = -1;  ///< Samples over all ranks; -1 when logged.
};

/// Per-sample values of a metric on this rank, over one pass of a loader, as they were given to accelerator.metric().
struct SampleValues {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  std::string purpose;
  std::int64_t pass = 0;
  std::string name;
  std::int64_t columns = 1;       ///< Values a sample: "mean" 1; "weighted-mean" value and weight; "f1-macro" prediction and label.
  std::vector<std::int64_t> ids;  ///< Padding and fillers are left out.
  std::vector<double> values;     ///< [ids, columns], row by row.
};

/// What a stretch of the training thread's time went to.
enum class SpanKind {
  kDataWait,    ///< Inside the loader, waiting for the next batch.
  kCompute,     ///< From a batch handed over to the end of its backward pass, less what is exposed communication.
  kExposed,     ///< Communication that no computation hid, with the copy out of its buffers.
  kOptimizer,   ///< Clip, the optimizer's step, the schedule's, and the reset of the gradients.
  kCheckpoint,  ///< save_state() and load_state().
  kEvaluation,  ///< A pass over an evaluation loader, and metrics' results.
  kRecording,   ///< Digests, norms, sketches, and handing rows to the observers.
};

/// Spans never overlap, and come in order of time. CLOCK_MONOTONIC. A span may reach over the end of a step (on_step).
struct Span {
  SpanKind kind = SpanKind::kCompute;
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// Where the time of one step went on this rank: from the end of the step before (or the first batch) to its own end. The
/// parts and other_ns sum to wall_ns; other_ns is never negative.
struct Phase {
  std::int64_t step = 0;
  std::int64_t data_ns = 0, compute_ns = 0, exposed_ns = 0, optimizer_ns = 0, checkpoint_ns = 0, evaluation_ns = 0, recording_ns = 0, other_ns = 0;
  std::int64_t wall_ns = 0;
};

/// A part of the whole run on this rank: "set-up", "training", "evaluation", "checkpoints".
struct RunPhase {
  std::string name;
  std::int64_t ns = 0;
};

struct CheckpointCommitted {
  Position position;
  std::string path;  ///< Folder, absolute.
  std::int64_t bytes = 0;
  std::string manifest_sha256;  ///< 64 hex digits.
};

/// One leaf of the training state: a tensor, a number or a text, by its digest.
struct StateLeaf {
  std::int64_t step = 0;
  std::string moment;  ///< "saved" as captured for a checkpoint, "loaded" as it stood live after load_state().
  std::string path;    ///< "model/conv1.weight", "optimizer/conv1.weight/exp_avg", "scheduler/steps", "position/epoch", "user/NAME/KEY", ...
  Digest digest;
};

struct RunEvent {
  std::string severity;  ///< "info", "warning", "error".
  std::string kind;      ///< Short word, e.g. "observer-detached", "threads".
  std::string text;
  std::int64_t step = -1;
};

struct RunEnd {
  std::int64_t steps = 0;
  std::string status;  ///< "finished", "stopped" (reached a step limit), "failed".
  std::string text;    ///< The error, when failed.
};

}  // namespace samerun
