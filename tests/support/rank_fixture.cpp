// A training program for tests on several ranks: rank_fixture MODE [WORDS]. Each mode prints what its test looks at.
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <samerun/samerun.h>

#include "seams.h"

namespace {

using samerun::Accelerator;
using samerun::Batch;
using Words = std::vector<std::string>;

std::int64_t number(const Words& words, std::size_t index, std::int64_t otherwise) {
  return index < words.size() ? std::stoll(words[index]) : otherwise;
}

std::string text_of(const torch::Tensor& tensor) {
  std::string text;
  const auto values = tensor.detach().to(at::kDouble).contiguous().flatten();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    char word[40];
    std::snprintf(word, sizeof word, "%s%.17g", i == 0 ? "" : " ", values[i].item<double>());
    text += word;
  }
  return text;
}

void say(const std::string& what, const std::string& text) {
  std::printf("%s: %s\n", what.c_str(), text.c_str());
  std::fflush(stdout);
}
void say(const std::string& what, const torch::Tensor& tensor) {
  say(what, text_of(tensor));
}
void say(const std::string& what, const std::vector<std::int64_t>& values) {
  say(what, text_of(torch::tensor(values, at::kLong)));
}

/// Collectives that this rank has called.
std::int64_t collectives = 0;

class Counting final : public samerun::detail::Communicator {
 public:
  explicit Counting(std::shared_ptr<Communicator> next) : next_(std::move(next)) {}
  int rank() const override { return next_->rank(); }
  int world_size() const override { return next_->world_size(); }
  std::string backend() const override { return next_->backend(); }
  samerun::detail::PendingReduction all_reduce(at::Tensor& tensor, samerun::detail::Reduction op) override {
    ++collectives;
    return next_->all_reduce(tensor, op);
  }
  std::vector<at::Tensor> all_gather(const at::Tensor& tensor) override {
    ++collectives;
    return next_->all_gather(tensor);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    ++collectives;
    next_->broadcast(tensor, root);
  }
  void barrier() override {
    ++collectives;
    next_->barrier();
  }
  c10::intrusive_ptr<c10d::ProcessGroup> group() override { return next_->group(); }

 private:
  std::shared_ptr<Communicator> next_;
};

void count_collectives(samerun::detail::Seams& seams) {
  seams.communicator = [](std::shared_ptr<samerun::detail::Communicator> next) { return std::make_shared<Counting>(std::move(next)); };
}

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t hidden = 5, bool norm = false) {
    first = register_module("first", torch::nn::Linear(3, hidden));
    if (norm) batch_norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
    second = register_module("second", torch::nn::Linear(hidden, 2));
    branch = register_parameter("branch", torch::ones({2}));
  }
  torch::Tensor forward(torch::Tensor x, bool use_branch = true) {
    x = first(x);
    if (!batch_norm.is_empty()) x = batch_norm(x);
    if (!batch_norm.is_empty() && norm_twice) x = batch_norm(torch::tanh(x) + x * 0.5);
    x = second(dropout(torch::tanh(x)));
    return use_branch ? x * branch : x;
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::nn::BatchNorm1d batch_norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::Tensor branch;
  bool norm_twice = false;  ///< One module used twice in a forward pass.
};
TORCH_MODULE(Net);

std::shared_ptr<samerun::Dataset> rows(std::int64_t count) {
  torch::manual_seed(4);
  auto data = torch::randn({count, 3});
  return samerun::tensor_dataset("rows", data, torch::randn({count, 2}));
}

torch::Tensor loss_of(const torch::Tensor& out, const Batch& batch) {
  return (out - batch.target).pow(2).sum(1).mean();
}

/// The objects of a training loop; parameters and buffers are one after the other in `state()`.
struct Job {
  Job(Accelerator& on, std::int64_t count, const samerun::LoaderOptions& options, Net net = Net())
      : accelerator(on),
        loader(accelerator.prepare_loader(rows(count), options)),
        model(std::move(net)),
        optimizer(model->parameters(), torch::optim::AdamWOptions(0.01)),
        handles(accelerator.prepare(model, optimizer)) {}

  samerun::Optimizer& opt() { return std::get<1>(handles); }
  void train(const Batch& batch, bool use_branch = true) {
    auto window = accelerator.accumulate(model);
    accelerator.backward(loss_of(model->forward(batch.data, use_branch), batch), static_cast<double>(batch.size));
    if (window.sync_gradients()) accelerator.clip_grad_norm(model->parameters(), 1.0);
    opt().step();
    opt().zero_grad();
  }
  torch::Tensor state() {
    std::vector<torch::Tensor> parts;
    for (const auto& parameter : model->parameters()) parts.push_back(parameter.detach().to(at::kDouble).flatten());
    for (const auto& buffer : model->buffers()) parts.push_back(buffer.to(at::kDouble).flatten());
    return torch::cat(parts);
  }

  Accelerator& accelerator;
  samerun::Loader loader;
  Net model;
  torch::optim::AdamW optimizer;
  std::tuple<Net, samerun::Optimizer> handles;
};

void operations(Accelerator& accelerator, const Words&) {
  const auto n = accelerator.world_size(), rank = accelerator.rank();
  const auto own = torch::arange(1, n + 1, at::kFloat) + n * rank;
  say("gather", accelerator.gather(own));
  say("gather strided", accelerator.gather(torch::stack({own, own + 100}).t()));
  say("gather scalar", accelerator.gather(torch::tensor(static_cast<double>(rank))));
  say("gather uneven", accelerator.gather(torch::full({rank}, rank, at::kLong)));
  say("gather bool", accelerator.gather(torch::tensor({rank == 0})));
  say("gather nothing", accelerator.gather(torch::empty({0, 2})));
  say("sum", accelerator.reduce(own));
  say("mean", accelerator.reduce(own, samerun::ReduceOp::kMean));
  say("min", accelerator.reduce(own, samerun::ReduceOp::kMin));
  say("max", accelerator.reduce(own, samerun::ReduceOp::kMax));
  say("own", own);
  auto values = own.clone();
  accelerator.broadcast(values);
  say("broadcast", values);
  auto column = torch::zeros({n, 2}).select(1, 1);
  column.copy_(own);
  accelerator.broadcast(column, n - 1);
  say("broadcast strided from the last", column);
}

void shapes_differ(Accelerator& accelerator, const Words& words) {
  auto tensor = torch::zeros({2 + accelerator.rank(), 3 + accelerator.rank()});
  if (words.at(0) == "gather") accelerator.gather(tensor);
  if (words.at(0) == "reduce") accelerator.reduce(tensor);
  if (words.at(0) == "broadcast") accelerator.broadcast(tensor);
}

/// words: count, batch size, uneven (0..3); any number of these.
void metrics(Accelerator& accelerator, const Words& words) {
  for (std::size_t i = 0; i + 2 < words.size(); i += 3) {
    const auto dataset = samerun::tensor_dataset("ids", torch::arange(number(words, i, 0)), torch::Tensor());
    const samerun::LoaderOptions options{
        .batch_size = number(words, i + 1, 1), .training = false, .uneven = static_cast<samerun::Uneven>(number(words, i + 2, 0))};
    auto loader = accelerator.prepare_loader(dataset, options);
    for (int pass = 0; pass < 2; ++pass) {
      std::vector<torch::Tensor> parts{torch::zeros({0}, at::kLong)};
      for (auto& batch : loader) parts.push_back(accelerator.gather_for_metrics(batch.data));
      say("rows", std::get<0>(torch::cat(parts).sort()));
    }
  }
}

/// words: count, batch size, uneven, a sample whose row is NaN (-1: none), "skip" to leave fillers out.
void metric_values(Accelerator& accelerator, const Words& words) {
  const auto bad = number(words, 3, -1);
  const auto dataset = samerun::tensor_dataset("ids", torch::arange(number(words, 0, 0)), torch::Tensor());
  auto loader = accelerator.prepare_loader(
      dataset, {.batch_size = number(words, 1, 1), .training = false, .uneven = static_cast<samerun::Uneven>(number(words, 2, 0))});
  const auto spread = samerun::MetricRule::from_samples([](const at::Tensor& all) { return (all[-1][0] - all[0][0]).item<double>(); });
  for (int pass = 0; pass < 2; ++pass) {
    for (auto& batch : loader) {
      if (batch.filler && words.size() > 4) continue;
      const auto value = (batch.data.to(at::kDouble) + 1).sqrt().masked_fill(batch.data.eq(bad), NAN);
      accelerator.metric("mean", value, samerun::MetricRule::mean());
      accelerator.metric("weighted", torch::stack({value, batch.data.to(at::kDouble)}, 1), samerun::MetricRule::weighted_mean());
      accelerator.metric("f1", torch::stack({batch.data % 3, batch.data % 4}, 1), samerun::MetricRule::f1_macro());
      accelerator.metric("spread", batch.data, spread);
    }
    for (const char* name : {"mean", "weighted", "f1", "spread"}) say(name, torch::tensor(accelerator.metric_value(name), at::kDouble));
  }
}

/// words: what differs ("rule", "name", "nothing").
void metric_differs(Accelerator& accelerator, const Words& words) {
  auto loader = accelerator.prepare_loader(rows(4), {.batch_size = 1, .training = false});
  const bool other = accelerator.rank() == 1;
  for (auto& batch : loader) {
    if (words[0] == "nothing") continue;
    accelerator.metric("m", batch.data.select(1, 0), words[0] == "rule" && other ? samerun::MetricRule::sum() : samerun::MetricRule::mean());
  }
  accelerator.metric_value(words[0] == "name" && other ? "n" : "m");
}

/// words: count, batch size, workers.
void identifiers(Accelerator& accelerator, const Words& words) {
  auto loader =
      accelerator.prepare_loader(rows(number(words, 0, 21)), {.batch_size = number(words, 1, 3), .workers = static_cast<int>(number(words, 2, 0))});
  for (auto& batch : loader) say(batch.filler ? "filler" : "batch", batch.ids);
}

/// words: count, micro-batch, epochs, workers, norm, hidden.
void train(Accelerator& accelerator, const Words& words) {
  Job job(accelerator, number(words, 0, 22), {.batch_size = number(words, 1, 2), .shuffle = true, .workers = static_cast<int>(number(words, 3, 0))},
          Net(number(words, 5, 5), number(words, 4, 0) != 0));
  std::int64_t batches = 0, epochs = 0;
  for ([[maybe_unused]] auto epoch : accelerator.epochs(number(words, 2, 2))) {
    for (auto& batch : job.loader) {
      job.train(batch);
      ++batches;
    }
    ++epochs;
  }
  say("epochs", std::to_string(epochs));
  say("batches", std::to_string(batches));
  say("state", job.state());
}

void model_differs(Accelerator& accelerator, const Words&) {
  Job job(accelerator, 8, {}, Net(accelerator.rank() == 1 ? 6 : 5));
}

void dataset_differs(Accelerator& accelerator, const Words&) {
  accelerator.prepare_loader(rows(accelerator.rank() == 1 ? 9 : 8), {});
}

void loader_differs(Accelerator& accelerator, const Words&) {
  accelerator.prepare_loader(rows(8), {.batch_size = accelerator.rank() == 1 ? 4 : 2});
}

/// words: the rank that skips the branch, or -1 for all; the micro-batch of the window in which it is skipped, or -1 for all.
void unused(Accelerator& accelerator, const Words& words) {
  Job job(accelerator, 24, {.batch_size = 2});
  const auto skipping = number(words, 0, 1), micro = number(words, 1, -1);
  std::int64_t index = 0;
  for (auto& batch : job.loader) {
    const bool skip = (skipping < 0 || skipping == accelerator.rank()) && (micro < 0 || micro == index % 2);
    auto window = accelerator.accumulate();
    accelerator.backward(loss_of(job.model->forward(batch.data, !skip), batch), static_cast<double>(batch.size));
    if (window.sync_gradients()) say("gradient", job.model->branch.grad().defined() ? job.model->branch.grad() : torch::zeros({0}));
    job.opt().step();
    job.opt().zero_grad();
    ++index;
  }
  say("state", job.state());
}

void throws(Accelerator& accelerator, const Words&) {
  Job job(accelerator, 24, {.batch_size = 2});
  for (auto& batch : job.loader) {
    if (accelerator.rank() == accelerator.world_size() - 1) throw std::runtime_error("the last rank gives up");
    job.train(batch);
  }
}

/// One rank leaves the loop early; the others wait for it in a collective.
void leaves(Accelerator& accelerator, const Words&) {
  Job job(accelerator, 24, {.batch_size = 2});
  for (auto& batch : job.loader) {
    if (accelerator.rank() == 1) std::exit(7);
    job.train(batch);
  }
}

/// One rank stops in the middle; the others wait for it in a collective until their time limit.
void hangs(Accelerator& accelerator, const Words&) {
  Job job(accelerator, 24, {.batch_size = 2});
  for (auto& batch : job.loader) {
    while (accelerator.rank() == 1) ::pause();
    job.train(batch);
  }
}

/// Says train() only once it has its batch, after an evaluation at the epoch's end. words: whether the norm is used twice.
void trains_late(Accelerator& accelerator, const Words& words) {
  Job job(accelerator, 22, {.batch_size = 2}, Net(5, true));
  job.model->norm_twice = number(words, 0, 0) != 0;
  for ([[maybe_unused]] auto epoch : accelerator.epochs(2)) {
    for (auto& batch : job.loader) {
      job.model->train();
      job.train(batch);
    }
    job.model->eval();
  }
  say("state", job.state());
}

void breaks(Accelerator& accelerator, const Words& words) {
  Job job(accelerator, 24, {.batch_size = 2, .shuffle = true, .workers = static_cast<int>(number(words, 0, 0))});
  for (auto epoch : accelerator.epochs(3)) {
    std::int64_t seen = 0;
    for (auto& batch : job.loader) {
      job.train(batch);
      if (++seen == epoch + 1) break;  // inside a window in epoch 0 and 2
    }
  }
  std::int64_t seen = 0;
  for (auto& batch : job.loader) {
    job.train(batch);
    ++seen;
  }
  say("batches", std::to_string(seen));
  say("state", job.state());
}

void not_a_number(Accelerator& accelerator, const Words&) {
  Job job(accelerator, 24, {.batch_size = 2});
  std::int64_t batches = 0;
  for (auto& batch : job.loader) {
    auto window = accelerator.accumulate();
    auto loss = loss_of(job.model->forward(batch.data), batch);
    if (accelerator.rank() == 0 && batches == 0) loss = loss * NAN;
    accelerator.backward(loss);
    job.opt().step();
    job.opt().zero_grad();
    ++batches;
  }
  say("batches", std::to_string(batches));
  say("nan", std::string(job.state().isnan().any().item<bool>() ? "yes" : "no"));
}

void count_in_window(Accelerator& accelerator, const Words&) {
  Job job(accelerator, 48, {.batch_size = 2});
  for (auto& batch : job.loader) {
    const auto before = collectives;
    auto window = accelerator.accumulate(job.model);
    accelerator.backward(loss_of(job.model->forward(batch.data), batch));
    job.opt().step();
    job.opt().zero_grad();
    say(window.sync_gradients() ? "sync" : "inside", collectives == before ? std::string("none") : std::string("some"));
  }
}

/// Dtypes that a float64 shadow must and must not change.
void dtypes(Accelerator& accelerator, const Words&) {
  Job job(accelerator, 24, {.batch_size = 2}, Net(5, true));
  for (auto& batch : job.loader) job.train(batch);
  for (const auto& item : job.model->named_parameters()) say(item.key(), std::string(c10::toString(item.value().scalar_type())));
  for (const auto& item : job.model->named_buffers()) say(item.key(), std::string(c10::toString(item.value().scalar_type())));
  say("seen", job.model->batch_norm->num_batches_tracked);
}

void evaluates_inside(Accelerator& accelerator, const Words& words) {
  Job job(accelerator, 22, {.batch_size = 2});
  auto evaluation = accelerator.prepare_loader(rows(7), {.batch_size = 2, .training = false});
  for (auto& batch : job.loader) {
    job.train(batch);
    if (number(words, 0, 0) == 0) continue;
    job.model->eval();
    const torch::NoGradGuard guard;
    std::int64_t count = 0;
    for (auto& other : evaluation) count += accelerator.gather_for_metrics(job.model->forward(other.data)).size(0);
    if (count != 7) throw std::runtime_error("an evaluation had " + std::to_string(count) + " rows");
    job.model->train();
  }
  say("state", job.state());
}

void two_accelerators(Accelerator&, const Words&) {
  const Accelerator second(samerun::resolve_options(0, nullptr));
}

using Mode = void (*)(Accelerator&, const Words&);

const std::map<std::string, Mode>& modes() {
  static const std::map<std::string, Mode> all{{"operations", operations},
                                               {"shapes_differ", shapes_differ},
                                               {"metrics", metrics},
                                               {"metric_values", metric_values},
                                               {"metric_differs", metric_differs},
                                               {"identifiers", identifiers},
                                               {"train", train},
                                               {"model_differs", model_differs},
                                               {"dataset_differs", dataset_differs},
                                               {"loader_differs", loader_differs},
                                               {"unused", unused},
                                               {"throws", throws},
                                               {"leaves", leaves},
                                               {"hangs", hangs},
                                               {"trains_late", trains_late},
                                               {"breaks", breaks},
                                               {"not_a_number", not_a_number},
                                               {"count_in_window", count_in_window},
                                               {"dtypes", dtypes},
                                               {"evaluates_inside", evaluates_inside},
                                               {"two_accelerators", two_accelerators}};
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const auto found = modes().find(mode);
  if (found == modes().end()) {
    std::fprintf(stderr, "rank_fixture: unknown mode '%s'\n", mode.c_str());
    return 2;
  }
  samerun::detail::seam_decorator = &count_collectives;
  auto options = samerun::options_from(argc, argv);
  if (std::getenv("FIXTURE_FIND_UNUSED") != nullptr) options.find_unused_parameters = true;
  // Without a handler here an error ends the process as it does a program that catches nothing.
  Accelerator accelerator(options);
  found->second(accelerator, Words(argv + 2, argv + argc));
  return 0;
}
