// Times optimizer steps of the Accelerator's loop. Rank program of tests/bench/run; rank 0 writes one JSON object.
//
//   bench_step --out FILE [--what compare|train|first|first-plain] [--model mlp|digits] [--accumulation K] [--blocks N] [--steps N]
//
// compare: blocks of steps through the Accelerator and blocks of a loop written by hand over c10d, alternately, in one process.
// train: the Accelerator's blocks alone. first, first-plain: the time at which the first step was done.
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>

#include "samerun/core/plan.h"
#include "samerun/samerun.h"

namespace {

namespace nn = torch::nn;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

constexpr std::int64_t kBucketBytes = 25 << 20, kFirstBucketBytes = 1 << 20;
constexpr int kWarmUpSteps = 5;

struct Arguments {
  std::string out, what = "compare", model = "mlp";
  std::int64_t accumulation = 1, blocks = 20, steps = 20;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--out") {
      arguments.out = value;
    } else if (flag == "--what") {
      arguments.what = value;
    } else if (flag == "--model") {
      arguments.model = value;
    } else if (flag == "--accumulation") {
      arguments.accumulation = std::atoll(value.c_str());
    } else if (flag == "--blocks") {
      arguments.blocks = std::atoll(value.c_str());
    } else if (flag == "--steps") {
      arguments.steps = std::atoll(value.c_str());
    } else {
      throw std::runtime_error("unknown flag " + flag);
    }
  }
  if (argc % 2 == 0 || arguments.out.empty()) throw std::runtime_error("usage: bench_step --out FILE [--FLAG VALUE]...");
  return arguments;
}

/// What both loops train. Sizes divide by 4 ranks x 4 micro-batches, so that all steps are alike.
struct Task {
  torch::Tensor data, target;
  std::int64_t batch;
  nn::Sequential (*make_net)();
};

nn::Sequential make_mlp() {
  return nn::Sequential(nn::Linear(256, 1024), nn::ReLU(), nn::Linear(1024, 1024), nn::ReLU(), nn::Linear(1024, 10));
}

/// The net of examples/digits.cpp.
nn::Sequential make_digits() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 3).padding(1)), nn::ReLU(), nn::Conv2d(nn::Conv2dOptions(16, 32, 3).padding(1)),
                        nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::LayerNorm(nn::LayerNormOptions({32 * 4 * 4})), nn::Linear(512, 64),
                        nn::ReLU(), nn::Dropout(0.2), nn::Linear(64, 10));
}

Task make_task(const std::string& model) {
  torch::manual_seed(1);
  if (model == "mlp") return {torch::randn({4096, 256}), torch::randint(10, {4096}), 32, make_mlp};
  if (model == "digits") return {torch::rand({1536, 1, 8, 8}), torch::randint(10, {1536}), 16, make_digits};
  throw std::runtime_error("unknown model " + model);
}

torch::optim::AdamW make_optimizer(const nn::Sequential& net) {
  return torch::optim::AdamW(net->parameters(), torch::optim::AdamWOptions(1e-3));
}

class SamerunLoop {
 public:
  SamerunLoop(samerun::Accelerator& accelerator, const Task& task)
      : accelerator_(accelerator),
        loader_(accelerator.prepare_loader(samerun::tensor_dataset("random", task.data, task.target), {.batch_size = task.batch, .shuffle = true})),
        net_(task.make_net()),
        adamw_(make_optimizer(net_)),
        optimizer_(std::get<1>(accelerator.prepare(net_, adamw_))),
        batch_(loader_.begin()) {}

  const samerun::PlanOptions& plan() const { return loader_.plan(); }

  void step() {
    for (bool last = false; !last; ++batch_) {
      if (!(batch_ != loader_.end())) batch_ = loader_.begin();
      auto& batch = *batch_;
      const auto window = accelerator_.accumulate();
      last = window.sync_gradients();
      accelerator_.backward(nn::functional::cross_entropy(net_->forward(batch.data), batch.target), static_cast<double>(batch.size));
      optimizer_.step();
      optimizer_.zero_grad();
    }
  }

 private:
  samerun::Accelerator& accelerator_;
  samerun::Loader loader_;
  nn::Sequential net_;
  torch::optim::AdamW adamw_;
  samerun::Optimizer optimizer_;
  samerun::Loader::Iterator batch_;
};

/// What one writes without Samerun: c10d's reducer, the mean of means over micro-batches and ranks, no record of anything.
class PlainLoop {
 public:
  PlainLoop(const Task& task, const samerun::PlanOptions& plan_options, int rank, Group group)
      : task_(task),
        accumulation_(plan_options.accumulation_steps),
        net_(task.make_net()),
        adamw_(make_optimizer(net_)),
        parameters_(net_->parameters()) {
    const samerun::Plan plan(plan_options);
    for (std::int64_t round = 0; round < plan.rounds(); ++round) batches_.push_back(plan.at(0, round, rank)->ids);
    if (!group) return;
    const std::vector<bool> sparse(parameters_.size(), false);
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters_, {kFirstBucketBytes, kBucketBytes}, sparse));
    std::reverse(buckets.begin(), buckets.end());
    reducer_ =
        std::make_unique<c10d::Reducer>(parameters_, std::move(buckets), std::move(group), sparse, kBucketBytes, false, true,
                                        std::unordered_map<std::size_t, std::string>{}, kFirstBucketBytes, false, false, std::vector<std::int64_t>{});
  }

  void step() {
    for (std::int64_t micro = 0; micro < accumulation_; ++micro) {
      const auto index = torch::tensor(batches_[next_]);
      next_ = (next_ + 1) % batches_.size();
      auto loss = nn::functional::cross_entropy(net_->forward(task_.data.index_select(0, index)), task_.target.index_select(0, index));
      if (accumulation_ > 1) loss = loss / accumulation_;
      if (reducer_ && micro + 1 == accumulation_) {
        reducer_->rebuild_buckets();
        reducer_->prepare_for_backward({});
      }
      loss.backward();
    }
    adamw_.step();
    for (const auto& parameter : parameters_) parameter.mutable_grad().reset();
  }

 private:
  const Task& task_;
  std::int64_t accumulation_;
  nn::Sequential net_;
  torch::optim::AdamW adamw_;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::vector<std::int64_t>> batches_;
  std::size_t next_ = 0;
  std::unique_ptr<c10d::Reducer> reducer_;
};

c10::intrusive_ptr<c10d::TCPStore> make_store(const std::string& host, int port, int rank) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = rank == 0;
  options.waitWorkers = false;
  return c10::make_intrusive<c10d::TCPStore>(host, options);
}

Group make_group(const c10::intrusive_ptr<c10d::TCPStore>& store, int rank, int world_size) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world_size, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world_size);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, std::optional<c10::intrusive_ptr<c10d::Backend>>(gloo));
  return group;
}

/// A second group beside the Accelerator's, whose public calls pass the port on. Null where there is one rank.
Group make_second_group(samerun::Accelerator& accelerator) {
  if (accelerator.world_size() == 1) return {};
  auto port = torch::zeros({1}, torch::kLong);
  c10::intrusive_ptr<c10d::TCPStore> store;
  if (accelerator.is_main_process()) {
    store = make_store("127.0.0.1", 0, 0);
    port.fill_(store->getPort());
  }
  accelerator.broadcast(port);
  if (!store) store = make_store("127.0.0.1", port.item<int>(), accelerator.rank());
  return make_group(store, accelerator.rank(), accelerator.world_size());
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Milliseconds a step of each block: by the clock, and of all threads of this process.
struct Times {
  std::vector<double> wall_ms, cpu_ms;

  template <class Loop>
  void add_block(Loop& loop, std::int64_t steps) {
    const double wall = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (std::int64_t i = 0; i < steps; ++i) loop.step();
    wall_ms.push_back(1e3 * (seconds_of(CLOCK_MONOTONIC) - wall) / static_cast<double>(steps));
    cpu_ms.push_back(1e3 * (seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) / static_cast<double>(steps));
  }
};

void write_list(std::ostream& out, const std::string& name, const std::vector<double>& values) {
  out << "\"" << name << "\": [";
  for (std::size_t i = 0; i < values.size(); ++i) out << (i > 0 ? ", " : "") << values[i];
  out << "]";
}

void write_times(std::ostream& out, const std::string& name, const Times& times) {
  write_list(out, name + "_ms", times.wall_ms);
  out << ", ";
  write_list(out, name + "_cpu_ms", times.cpu_ms);
}

template <class Loop>
void warm_up(Loop& loop) {
  for (int i = 0; i < kWarmUpSteps; ++i) loop.step();
}

void compare(const Arguments& arguments, samerun::Accelerator& accelerator, std::ostream& out) {
  const auto task = make_task(arguments.model);
  SamerunLoop ours(accelerator, task);
  PlainLoop plain(task, ours.plan(), accelerator.rank(), make_second_group(accelerator));
  warm_up(ours);
  warm_up(plain);
  Times our_times, plain_times;
  for (std::int64_t block = 0; block < arguments.blocks; ++block) {
    for (const bool first : {true, false}) {
      accelerator.wait_for_everyone();
      if (first == (block % 2 == 0)) {  // A B, B A, A B, ...: neither is always the one after the other
        our_times.add_block(ours, arguments.steps);
      } else {
        plain_times.add_block(plain, arguments.steps);
      }
    }
  }
  out << "{";
  write_times(out, "samerun", our_times);
  out << ", ";
  write_times(out, "plain", plain_times);
  out << "}\n";
}

void train(const Arguments& arguments, samerun::Accelerator& accelerator, std::ostream& out) {
  const auto task = make_task(arguments.model);
  SamerunLoop ours(accelerator, task);
  warm_up(ours);
  Times times;
  for (std::int64_t block = 0; block < arguments.blocks; ++block) {
    accelerator.wait_for_everyone();
    times.add_block(ours, arguments.steps);
  }
  out << "{";
  write_times(out, "samerun", times);
  out << ", \"steps\": " << kWarmUpSteps + arguments.blocks * arguments.steps << "}\n";
}

int integer_from(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return std::atoi(text);
}

/// The whole of a program without Samerun up to its first step; ranks as torchrun would name them.
void first_plain_step(const Arguments& arguments) {
  torch::set_num_threads(1);
  const int rank = integer_from("RANK"), world_size = integer_from("WORLD_SIZE");
  Group group;
  if (world_size > 1) group = make_group(make_store("127.0.0.1", integer_from("MASTER_PORT"), rank), rank, world_size);
  const auto task = make_task(arguments.model);
  samerun::PlanOptions plan;
  plan.size = task.data.size(0);
  plan.batch_size = task.batch;
  plan.world_size = world_size;
  plan.shuffle = true;
  PlainLoop loop(task, plan, rank, group);
  loop.step();
  if (rank == 0) std::ofstream(arguments.out) << "{\"done_s\": " << std::fixed << seconds_of(CLOCK_MONOTONIC) << "}\n";
  if (group) group->barrier()->wait();
}

void run(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  if (arguments.what == "first-plain") return first_plain_step(arguments);
  auto options = samerun::options_from(argc, argv);
  options.accumulation_steps = arguments.accumulation;
  samerun::Accelerator accelerator(options);
  std::ostringstream text;
  if (arguments.what == "compare") {
    compare(arguments, accelerator, text);
  } else if (arguments.what == "train") {
    train(arguments, accelerator, text);
  } else if (arguments.what == "first") {
    const auto task = make_task(arguments.model);
    SamerunLoop loop(accelerator, task);
    loop.step();
    text << "{\"done_s\": " << std::fixed << seconds_of(CLOCK_MONOTONIC) << "}\n";
  } else {
    throw std::runtime_error("--what is compare, train, first or first-plain");
  }
  if (accelerator.is_main_process()) std::ofstream(arguments.out) << text.str();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "bench_step: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
