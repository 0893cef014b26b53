// The training program of the tests of checkpoints: checkpoint_fixture FOLDER [WORDS], which saves to and loads from FOLDER. It has all that a
// resumed run can lose: dropout, running statistics, tied parameters, momentum or moments, a schedule, evaluations inside and after epochs,
// short last batches, partial windows, an object of its own. Words:
//   adamw, sgd, rmsprop     the optimizer (adamw)
//   steplr                  libtorch's schedule instead of Samerun's
//   epochs=N  hidden=N  rows=N  workers=N  limit=N
//   save-epochs             saves at each epoch's end;  save-twice: once more at once
//   no-load                 forgets load_state();  load=NAME: loads without being told to by the launcher
//   untied, other-loader, no-schedule, no-object      a program that is another one
//   weights                 prints parameters and buffers at the end;  read=FILE: prints the tensors of a safetensors file, and ends
//   diverge                 one rank's running statistics go their own way
//   digests                 prints digests of the live state around a load that fails
//   die-at=K, full-at=K     the K-th change to the file system ends the process, or fails as on a full disk;  count-changes: prints how many
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <samerun/samerun.h>

#include "safetensors.h"
#include "samerun/core/digest.h"
#include "samerun/core/file.h"

namespace {

using samerun::Accelerator;
using samerun::Batch;

struct Words {
  std::vector<std::string> all;
  bool has(const std::string& word) const { return std::find(all.begin(), all.end(), word) != all.end(); }
  std::string text(const std::string& key, const std::string& otherwise) const {
    for (const auto& word : all) {
      if (word.starts_with(key + "=")) return word.substr(key.size() + 1);
    }
    return otherwise;
  }
  std::int64_t number(const std::string& key, std::int64_t otherwise) const { return std::stoll(text(key, std::to_string(otherwise))); }
};

void say(const std::string& what, const std::string& text) {
  std::printf("%s: %s\n", what.c_str(), text.c_str());
  std::fflush(stdout);
}

std::int64_t changes = 0, die_at = -1, full_at = -1;

void count_change(samerun::FileStep, const std::string& path) {
  ++changes;
  if (changes == die_at) ::raise(SIGKILL);
  if (changes == full_at) throw samerun::Error(samerun::ErrorCode::kStorage, "cannot write: No space left on device", {{"file", path}});
}

/// A layer that can take over another's weight.
struct TiedLinearImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  void tie(const torch::Tensor& to) { weight = parameters_["weight"] = to; }
};
TORCH_MODULE(TiedLinear);

struct NetImpl : torch::nn::Module {
  NetImpl(std::int64_t hidden, bool tied) {
    first = register_module("first", torch::nn::Linear(3, hidden));
    norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
    dropout = register_module("dropout", torch::nn::Dropout(0.25));
    inner = register_module("inner", torch::nn::Linear(hidden, hidden));
    again = register_module("again", TiedLinear(hidden, hidden));
    if (tied) again->tie(inner->weight);
    second = register_module("second", torch::nn::Linear(hidden, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = dropout(norm(first(x)));
    return second(torch::tanh(again(torch::tanh(inner(x)))));
  }
  torch::nn::Linear first{nullptr}, inner{nullptr}, second{nullptr};
  TiedLinear again{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

std::shared_ptr<samerun::Dataset> rows(const std::string& name, std::int64_t count) {
  torch::manual_seed(4);
  const auto data = torch::randn({count, 3});
  return samerun::tensor_dataset(name, data, torch::randn({count, 2}));
}

/// What a program may keep besides: a text and a tensor, on every rank its own.
class Trail final : public samerun::Stateful {
 public:
  samerun::ObjectState state() const override { return {{{"sum", sum_}}, {{"batches", std::to_string(batches_)}}}; }
  void load_state(const samerun::ObjectState& state) override {
    sum_ = state.tensors.at("sum").clone();
    batches_ = std::stoll(state.values.at("batches"));
  }
  void add(const torch::Tensor& loss) {
    sum_ = sum_ + loss.detach().to(at::kDouble);
    ++batches_;
  }
  std::int64_t batches() const { return batches_; }
  std::string text() const {
    char line[80];
    std::snprintf(line, sizeof line, "%lld %.17g", static_cast<long long>(batches_), sum_.item<double>());
    return line;
  }

 private:
  torch::Tensor sum_ = torch::zeros({}, at::kDouble);
  std::int64_t batches_ = 0;
};

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Words& words, const std::vector<torch::Tensor>& parameters) {
  if (words.has("sgd")) return std::make_unique<torch::optim::SGD>(parameters, torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(0.01));
  if (words.has("rmsprop"))
    return std::make_unique<torch::optim::RMSprop>(parameters, torch::optim::RMSpropOptions(0.01).momentum(0.5).centered(true));
  return std::make_unique<torch::optim::AdamW>(parameters, torch::optim::AdamWOptions(0.01));
}

/// The program's objects.
struct Job {
  Job(Accelerator& on, const Words& given)
      : accelerator(on),
        words(given),
        loader(accelerator.prepare_loader(
            rows("rows", words.number("rows", 50)),
            {.batch_size = words.has("other-loader") ? 5 : 3, .shuffle = true, .workers = static_cast<int>(words.number("workers", 0))})),
        evaluation(accelerator.prepare_loader(rows("test-rows", 7), {.batch_size = 2, .training = false})),
        model(words.number("hidden", 5), !words.has("untied")),
        optimizer(make_optimizer(words, model->parameters())),
        schedule(samerun::linear_warmup_decay(*optimizer, 3, 100)),
        step_schedule(*optimizer, 2, 0.7) {
    if (words.has("no-schedule")) {
      auto [net, handle] = accelerator.prepare(model, *optimizer);
      opt = std::make_unique<samerun::Optimizer>(handle);
    } else if (words.has("steplr")) {
      take(accelerator.prepare(model, *optimizer, step_schedule));
    } else {
      take(accelerator.prepare(model, *optimizer, schedule));
    }
    if (!words.has("no-object")) accelerator.register_for_checkpointing("trail", trail);
  }
  void take(std::tuple<Net, samerun::Optimizer, samerun::Scheduler> handles) {
    opt = std::make_unique<samerun::Optimizer>(std::get<1>(handles));
    sched = std::make_unique<samerun::Scheduler>(std::get<2>(handles));
  }

  void train(const Batch& batch) {
    auto window = accelerator.accumulate(model);
    const auto errors = (model->forward(batch.data) - batch.target).pow(2).sum(1);
    accelerator.metric("train-error", errors, samerun::MetricRule::mean());  // asked for at the epoch's end
    const auto loss = errors.mean();
    accelerator.backward(loss, static_cast<double>(batch.size));
    if (window.sync_gradients()) accelerator.clip_grad_norm(model->parameters(), 1.0);
    opt->step();
    if (sched) sched->step();
    opt->zero_grad();
    trail.add(loss);
  }
  void evaluate() {
    model->eval();
    const torch::NoGradGuard guard;
    double sum = 0;
    for (auto& batch : evaluation)
      sum += accelerator.gather_for_metrics((model->forward(batch.data) - batch.target).pow(2).sum(1)).sum().item<double>();
    accelerator.log({{"error", sum}});
    model->train();
  }
  /// Digest of everything that a load may change.
  std::string digest() {
    std::string all;
    const auto add = [&](const torch::Tensor& tensor) {
      if (!tensor.defined()) return;
      const auto values = tensor.detach().contiguous();
      all += samerun::to_hex(samerun::digest_bytes(values.const_data_ptr(), values.nbytes()));
    };
    for (const auto& parameter : model->parameters()) add(parameter);
    for (const auto& buffer : model->buffers()) add(buffer);
    for (auto& group : optimizer->param_groups()) all += std::to_string(group.options().get_lr());
    all += std::to_string(optimizer->state().size()) + trail.text() + std::to_string(schedule.position());
    add(at::globalContext().defaultGenerator(at::kCPU).get_state());
    return samerun::to_hex(samerun::digest_text(all));
  }

  Accelerator& accelerator;
  const Words& words;
  samerun::Loader loader, evaluation;
  Net model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  samerun::LrSchedule schedule;
  torch::optim::StepLR step_schedule;
  std::unique_ptr<samerun::Optimizer> opt;
  std::unique_ptr<samerun::Scheduler> sched;
  Trail trail;
};

void load(Job& job) {
  const auto before = job.digest();
  try {
    job.accelerator.load_state(job.words.text("load", ""));
  } catch (const samerun::Error& error) {
    if (!job.words.has("digests")) throw;
    say("refused", std::string(samerun::to_string(error.code())) + " " + error.what());
    say("unchanged", before == job.digest() ? "yes" : "no");
    std::exit(0);
  }
}

void save(Job& job, const std::string& name = "") {
  try {
    say("saved", job.accelerator.save_state(name));
  } catch (const samerun::Error& error) {
    say("not saved", std::string(samerun::to_string(error.code())) + " " + error.what());
  }
}

std::string values_text(const torch::Tensor& tensor) {
  std::string text = std::string(c10::toString(tensor.scalar_type())) + " " + c10::str(tensor.sizes());
  const auto values = tensor.detach().to(at::kDouble).contiguous().flatten();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    char word[40];
    std::snprintf(word, sizeof word, " %.17g", values[i].item<double>());
    text += word;
  }
  return text;
}

void run(Accelerator& accelerator, const Words& words) {
  Job job(accelerator, words);
  if ((accelerator.resuming() && !words.has("no-load")) || !words.text("load", "").empty()) load(job);
  die_at = words.number("die-at", -1);
  full_at = words.number("full-at", -1);
  if (accelerator.rank() == words.number("changes-of-rank", 0)) samerun::file_hook = &count_change;
  for (auto epoch : accelerator.epochs(words.number("epochs", 3))) {
    job.model->train();
    for (auto& batch : job.loader) {
      job.train(batch);
      if (job.trail.batches() % job.loader.batches() == 2) job.evaluate();  // a counter of this loop alone would start again when resumed
    }
    job.evaluate();
    accelerator.metric_value("train-error");
    say("epoch", std::to_string(epoch));
    const torch::NoGradGuard guard;
    if (words.has("diverge") && accelerator.rank() == 1) job.model->norm->running_mean.add_(1);
    if (words.has("save-epochs")) save(job);
    if (words.has("save-twice")) save(job);
  }
  if (words.has("weights")) {
    for (const auto& item : job.model->named_parameters()) say("weight " + item.key(), values_text(item.value()));
    for (const auto& item : job.model->named_buffers()) say("weight " + item.key(), values_text(item.value()));
  }
  if (words.has("count-changes")) say("changes", std::to_string(changes));
  say("trail", job.trail.text());
  std::string state;
  for (const auto& parameter : job.model->parameters()) {
    const auto values = parameter.detach().contiguous();
    state += samerun::to_hex(samerun::digest_bytes(values.const_data_ptr(), values.nbytes()));
  }
  say("state", samerun::to_hex(samerun::digest_text(state)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: checkpoint_fixture FOLDER [WORDS]\n");
    return 2;
  }
  const Words words{{argv + 2, argv + argc}};
  if (const auto file = words.text("read", ""); !file.empty()) {
    for (const auto& [name, tensor] : samerun::detail::read_safetensors(file).tensors) say("weight " + name, values_text(tensor));
    return 0;
  }
  auto options = samerun::options_from(argc, argv);
  options.checkpoint_dir = std::string(argv[1]);
  if (const auto limit = words.number("limit", 0); limit > 0) options.total_limit = limit;
  Accelerator accelerator(options);
  run(accelerator, words);
  return 0;
}
