// What a resumed run can lose beside what prepare() takes charge of: a learning rate and random numbers of the program's own, and that two
// parameters are one. resume [--lose rate|noise|tie]: without a flag all is kept.
#include <ATen/CPUGeneratorImpl.h>
#include <samerun/samerun.h>
#include <torch/torch.h>

#include <iostream>

namespace {

constexpr std::int64_t kRows = 90, kWords = 12, kWidth = 8;

struct TiedLinearImpl : torch::nn::LinearImpl {
  using torch::nn::LinearImpl::LinearImpl;
  void tie(const torch::Tensor& to) { weight = parameters_["weight"] = to; }
};
TORCH_MODULE(TiedLinear);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    words = register_module("words", torch::nn::Embedding(kWords, kWidth));
    hidden = register_module("hidden", torch::nn::Linear(kWidth, kWidth));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
    head = register_module("head", TiedLinear(torch::nn::LinearOptions(kWidth, kWords).bias(false)));
    head->tie(words->weight);
  }
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& noise) {
    return head(dropout(torch::tanh(hidden(words(input) + noise.to(words->weight.dtype())))));
  }
  torch::nn::Embedding words{nullptr};
  torch::nn::Linear hidden{nullptr};
  torch::nn::Dropout dropout{nullptr};
  TiedLinear head{nullptr};
};
TORCH_MODULE(Net);

// Each rank draws its own.
struct Noise final : samerun::Stateful {
  explicit Noise(int rank) : generator(at::detail::createCPUGenerator(100 + static_cast<std::uint64_t>(rank))) {}
  torch::Tensor draw(std::int64_t rows) { return 0.1 * at::randn({rows, kWidth}, generator); }
  samerun::ObjectState state() const override { return {{{"generator", generator.get_state()}}, {}}; }
  void load_state(const samerun::ObjectState& state) override { generator.set_state(state.tensors.at("generator")); }
  at::Generator generator;
};

struct Rate final : samerun::Stateful {
  double next() { return 1e-2 / (1.0 + 0.05 * static_cast<double>(done++)); }
  samerun::ObjectState state() const override { return {{}, {{"done", std::to_string(done)}}}; }
  void load_state(const samerun::ObjectState& state) override { done = std::stoll(state.values.at("done")); }
  std::int64_t done = 0;
};

void train(int argc, char** argv) {
  const std::string lost = argc > 2 && std::string(argv[1]) == "--lose" ? argv[2] : "";
  auto options = samerun::options_from(argc, argv);
  options.accumulation_steps = 2;
  options.allow_outside_updates = true;  // a fault that moves parameters is to be found by the comparison, not by the run's own guard
  samerun::Accelerator accelerator(options);
  const auto data = torch::arange(kRows).remainder(kWords);
  auto loader =
      accelerator.prepare_loader(samerun::tensor_dataset("words", data, (data * 5 + 1).remainder(kWords)), {.batch_size = 4, .shuffle = true});
  Net model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  auto [net, opt] = accelerator.prepare(model, optimizer);
  Noise noise(accelerator.rank());
  Rate rate;
  if (lost != "noise") accelerator.register_for_checkpointing("noise", noise);
  if (lost != "rate") accelerator.register_for_checkpointing("rate", rate);
  if (accelerator.resuming()) {
    accelerator.load_state();
    if (lost == "tie") net->head->tie(net->words->weight.detach().clone().requires_grad_());
  }
  for ([[maybe_unused]] auto epoch : accelerator.epochs(3)) {
    for (auto& batch : loader) {
      auto window = accelerator.accumulate(net);
      accelerator.backward(torch::nn::functional::cross_entropy(net->forward(batch.data, noise.draw(batch.data.size(0))), batch.target));
      if (window.sync_gradients()) optimizer.param_groups()[0].options().set_lr(rate.next());
      opt.step();
      opt.zero_grad();
    }
    accelerator.save_state();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "resume: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
