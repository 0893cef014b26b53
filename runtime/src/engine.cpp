#include "engine.h"

#include <ATen/Parallel.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>

#include "capture.h"
#include "samerun/core/clock.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "streams.h"

namespace samerun::detail {

void (*seam_decorator)(Seams&) = nullptr;

namespace {

Engine* terminating_engine = nullptr;
std::terminate_handler previous_handler = nullptr;

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::string yes_no(bool value) {
  return value ? "true" : "false";
}

Options with_observers(Options options) {
  if (!options.observers) options.observers = std::make_shared<ObserverList>();
  return options;
}

}  // namespace

Engine::Engine(Options given)
    : options(with_observers(std::move(given))), launch(read_launch_environment()), mode(read_mode()), spans(*options.observers) {
  uncaught_at_start_ = std::uncaught_exceptions();
  say_hello(launch);
  if (terminating_engine != nullptr)
    throw Error(ErrorCode::kInvalidArgument, "a process has one Accelerator; keep the first and pass it on", {}, launch.rank);
  if (mode.replay_world > 0 && launch.world_size > 1)
    throw Error(ErrorCode::kConfig, std::string(env::kReplayWorld) + " is for a run of one rank", {{"world_size", std::to_string(launch.world_size)}},
                launch.rank);
  if (seam_decorator != nullptr) seam_decorator(seams);
  if (launch.threads) at::set_num_threads(*launch.threads);
  terminating_engine = this;
  previous_handler = std::set_terminate(&Engine::on_terminate);
  try {
    compute = resolve_device(options.device.value(), launch.local_rank);
    const auto backend = resolve_backend(options.backend.value(), launch, compute);
    backend_found_ = backend.why;
    communicator = make_communicator(launch, static_cast<int>(options.timeout_s.value()), backend);
    if (seams.communicator) communicator = seams.communicator(communicator);
    announce();
  } catch (...) {
    terminating_engine = nullptr;
    throw;
  }
  torch::manual_seed(static_cast<std::uint64_t>(options.seed.value()));
}

Engine::~Engine() {
  const bool unwinding = std::uncaught_exceptions() > uncaught_at_start_;
  if (!unwinding && !ended_) {
    try {
      communicator->barrier();  // rank 0 holds the store: nobody leaves while another still needs it
    } catch (const std::exception&) {
      // A rank that failed has said so itself.
    }
    ended_ = true;
    observers().on_run_end({position.optimizer_step, stopping ? "stopped" : "finished", ""});
    say_bye(launch);
  } else if (!ended_) {
    fail("the program left by an exception");
  }
  if (terminating_engine == this) {
    std::set_terminate(previous_handler);
    terminating_engine = nullptr;
  }
}

void Engine::fail(const std::string& text) {
  if (ended_) return;
  ended_ = true;
  observers().on_run_end({position.optimizer_step, "failed", text});
}

/// An exception that leaves main() becomes one line and an exit code instead of an abort.
void Engine::on_terminate() {
  std::string text = "terminated without an exception";
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "an exception that is no std::exception";
  }
  std::fprintf(stderr, "samerun: error: %s\n", text.c_str());
  std::fflush(nullptr);
  if (terminating_engine != nullptr) terminating_engine->fail(text);
  ::_exit(1);
}

void Engine::emit_setting(const std::string& key, const std::string& value, Origin origin) const {
  observers().on_setting({key, value, std::string(to_string(origin))});
}

void Engine::warn(const std::string& kind, const std::string& text) {
  observers().on_event({"warning", kind, text, position.optimizer_step});
}

void Engine::announce() {
  const auto& id = program_id();
  const std::vector<std::string> agreed{"program=" + id,
                                        "bucket_bytes=" + std::to_string(options.bucket_bytes.value()),
                                        "find_unused_parameters=" + yes_no(options.find_unused_parameters.value()),
                                        std::string("libtorch=") + TORCH_VERSION,
                                        "seed=" + std::to_string(options.seed.value()),
                                        "accumulation_steps=" + std::to_string(options.accumulation_steps.value()),
                                        "backend=" + communicator->backend(),
                                        "threads=" + std::to_string(at::get_num_threads()),
                                        "cpu_capability=" + at::get_cpu_capability(),
                                        "device=" + std::string(compute.gpu() ? "cuda" : "cpu"),
                                        "precision=" + std::string(mode.float64 ? "float64" : "native")};
  require_agreement(*communicator, "the program or its settings", agreed);
  observers().on_rank_start({launch.rank, launch.world_size, launch.local_rank, ::getpid(), host_name(), id, utc_now_ns(), monotonic_now_ns()});
  const auto environment = mode.replay_world > 0 ? Origin::kEnvironment : Origin::kDefault;
  emit_setting("world_size", std::to_string(launch.world_size), launch.source == "none" ? Origin::kDefault : Origin::kEnvironment);
  emit_setting("launcher", launch.source, Origin::kEnvironment);
  emit_setting("backend", communicator->backend(), options.backend.origin());
  emit_setting("device", compute.device.str(), options.device.origin());
  emit_setting("replay_world", std::to_string(mode.replay_world), environment);
  emit_setting("reference", mode.whole ? "whole" : "replay", environment);
  emit_setting("variation", std::to_string(mode.variation), environment);
  emit_setting("precision", mode.float64 ? "float64" : "native", mode.float64 ? Origin::kEnvironment : Origin::kDefault);
  emit_setting("seed", std::to_string(options.seed.value()), options.seed.origin());
  emit_setting("accumulation_steps", std::to_string(options.accumulation_steps.value()), options.accumulation_steps.origin());
  emit_setting("timeout_s", std::to_string(options.timeout_s.value()), options.timeout_s.origin());
  emit_setting("bucket_bytes", std::to_string(options.bucket_bytes.value()), options.bucket_bytes.origin());
  emit_setting("find_unused_parameters", yes_no(options.find_unused_parameters.value()), options.find_unused_parameters.origin());
  emit_setting("checkpoint_dir", options.checkpoint_dir.value(), options.checkpoint_dir.origin());
  emit_setting("total_limit", std::to_string(options.total_limit.value()), options.total_limit.origin());
  emit_setting("threads", std::to_string(at::get_num_threads()), launch.threads ? Origin::kEnvironment : Origin::kDefault);
  observers().on_environment({"libtorch", TORCH_VERSION, "torch/version.h", ""});
  observers().on_environment({"cpu_capability", at::get_cpu_capability(), "libtorch", ""});
  observers().on_environment({"device", compute.found, "options.device=" + options.device.value(), ""});
  observers().on_environment({"backend", backend_found_, "options.backend=" + options.backend.value(), launch.world_size > 1 ? "" : "one rank"});
  observers().on_environment({"mkl", yes_no(at::hasMKL()), "libtorch", ""});
}

/// Digest of the program file: two ranks with different builds are not one experiment.
const std::string& Engine::program_id() {
  if (program_id_.empty()) {
    std::ifstream in("/proc/self/exe", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    program_id_ = to_hex(digest_text(bytes));
  }
  return program_id_;
}

void Engine::prepare(std::shared_ptr<torch::nn::Module> module, torch::optim::Optimizer& optimizer) {
  if (prepared())
    throw Error(ErrorCode::kInvalidArgument, "prepare() was called twice: an Accelerator trains one model with one optimizer", {}, rank());
  model_ = Trainable(*module);
  if (model_.parameters().empty()) throw Error(ErrorCode::kInvalidArgument, "the model has no parameter that requires a gradient", {}, rank());
  module_ = std::move(module);
  require_agreement(*communicator, "the models", model_.description());
  broadcast_model();
  capture_initial();
  if (mode.float64) model_.widen();
  if (mode.variation >= 3) model_.perturb(static_cast<std::uint64_t>(mode.variation));
  build_reducer();
  statistics_ = RunningStatistics(*module_);
  if (mode.whole && !statistics_.empty())
    warn("whole-buffers", "the model keeps batch statistics, which differ when a window is taken as one batch; compare with --reference replay");
  optimizer_ = &optimizer;
  remember_parameters();
}

void Engine::broadcast_model() {
  const torch::NoGradGuard guard;
  auto tensors = model_.state_tensors();
  if (seams.broadcast_model) {
    seams.broadcast_model(tensors, rank());
    return;
  }
  for (auto& tensor : tensors) {
    auto values = tensor.detach().contiguous();
    communicator->broadcast(values, 0);
    if (!values.is_same(tensor)) tensor.copy_(values);
  }
}

void Engine::build_reducer() {
  ReducerOptions reducer_options;
  reducer_options.bucket_bytes = options.bucket_bytes.value();
  reducer_options.find_unused = options.find_unused_parameters.value();
  reducer_options.accumulators = mode.replay_world > 0 && !mode.whole ? mode.replay_world : 1;
  reducer_options.variation = mode.variation;
  reducer_options.measure_absolute = mode.measures() && !mode.whole;
  if (recording()) reducer_options.spans = &spans;
  LocalObserver observe;
  if (recording()) observe = [this](const std::vector<at::Tensor>& running, const MicroBatch& micro) { observe_local(running, micro); };
  reducer_ = launch.world_size > 1 ? make_c10d_reducer(model_, communicator, reducer_options, seams, std::move(observe))
                                   : make_local_reducer(model_, reducer_options, std::move(observe));
}

void Engine::capture_initial() {
  if (!recording()) return;
  CaptureOptions capture_options{stage::kInitial, -1, rank(), -1, true, false};
  for (const auto& item : model_.state()) observers().on_tensor(trace_of(item.name, item.tensor, capture_options));
}

void Engine::observe_local(const std::vector<at::Tensor>& running, const MicroBatch& micro) {
  const SpanTimer timer(spans, SpanKind::kRecording);
  const auto& parameters = model_.parameters();
  const int owner = launch.world_size > 1 ? rank() : micro.accumulator;
  CaptureOptions capture_options{stage::kLocal, micro.step, owner, micro.micro_index, false, false};
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto value = i < running.size() && running[i].defined() ? running[i] : at::zeros_like(parameters[i].tensor);
    observers().on_tensor(trace_of(parameters[i].name, value, capture_options));
  }
}

void Engine::batch_handed_over(const Slot& slot, std::int64_t rows, bool training, const std::string& purpose, std::int64_t pass_epoch,
                               std::int64_t pass) {
  if (training) spans.open_compute();
  statistics_.abandon();
  evaluation = {};
  auto& batch = training ? current : evaluation;
  batch = {};
  batch.valid = true;
  batch.training = training;
  batch.rows = rows;
  batch.real = slot.batch.real;
  batch.purpose = purpose;
  batch.epoch = pass_epoch;
  batch.pass = pass;
  batch.slot = slot;
  if (training) {
    current.last = slot.last;
    if (seams.window_end)
      current.last = seams.window_end(slot.last, window.local_rounds + 1, options.accumulation_steps.value(), position.optimizer_step);
    position.epoch = pass_epoch;
    position.batch_index = slot.batch.global_index;
    if (window.local_rounds == 0) begin_window();
    statistics_.begin();
  }
  StreamName name{static_cast<std::uint64_t>(options.seed.value()), slot.batch.filler ? std::string_view("filler") : std::string_view(purpose),
                  pass_epoch, slot.batch.global_index};
  if (seams.stream) name = seams.stream(name, rank());
  seed_generator(stream_seed(name));
  if (compute.gpu()) seed_gpu_generator(compute.device, stream_seed(name));
  if (mode.whole && training && !warned_random_) random_before_ = generator_state_digest();
}

/// The state as it stands before anything of this window has touched it: it must be what the last step left.
void Engine::begin_window() {
  if (!recording() || !prepared()) return;
  const SpanTimer timer(spans, SpanKind::kRecording);
  root_before_ = root_digest(model_.state_tensors());
  root_moments_before_ = moments_digest(parameter_states(*optimizer_, model_.parameters()));
}

void Engine::note_whole_reference() {
  if (!mode.whole || warned_random_ || generator_state_digest() == random_before_) return;
  warned_random_ = true;
  warn("whole-random", "the model draws random numbers, which differ when a window is taken as one batch; compare with --reference replay");
}

}  // namespace samerun::detail
