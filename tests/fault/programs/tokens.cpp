// A token-weighted loss over sequences of uneven length, without dropout: tokens [--recipe right|G01|G02].
// G01 and G02 are recipe faults: the program averages means of micro-batches with different numbers of tokens. Both arms of
// a replayed pair share them; only a reference that takes the whole window as one batch can see them.
#include <samerun/samerun.h>
#include <torch/torch.h>

#include <iostream>

namespace {

constexpr std::int64_t kSequences = 90, kLength = 12, kWords = 20;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    embedding = register_module("embedding", torch::nn::Embedding(kWords, 8));
    hidden = register_module("hidden", torch::nn::Linear(8, 16));
    head = register_module("head", torch::nn::Linear(16, kWords));
  }
  torch::Tensor forward(const torch::Tensor& words) { return head(torch::tanh(hidden(embedding(words)))); }
  torch::nn::Embedding embedding{nullptr};
  torch::nn::Linear hidden{nullptr}, head{nullptr};
};
TORCH_MODULE(Net);

// Next-word pairs; positions past a sequence's length are marked -100 and do not count.
std::pair<torch::Tensor, torch::Tensor> sequences() {
  torch::manual_seed(3);
  const auto words = torch::randint(kWords, {kSequences, kLength + 1});
  const auto lengths = torch::randint(2, kLength, {kSequences, 1});
  const auto inside = torch::arange(kLength).unsqueeze(0).lt(lengths);
  return {words.narrow(1, 0, kLength).contiguous(), torch::where(inside, words.narrow(1, 1, kLength), torch::full({}, -100))};
}

void train(int argc, char** argv) {
  const std::string recipe = argc > 2 && std::string(argv[1]) == "--recipe" ? argv[2] : "right";
  auto options = samerun::options_from(argc, argv);
  options.accumulation_steps = recipe == "G02" ? 1 : 3;
  samerun::Accelerator accelerator(options);
  const auto [words, next] = sequences();
  auto loader = accelerator.prepare_loader(samerun::tensor_dataset("sequences", words, next), {.batch_size = 4, .shuffle = true});
  torch::manual_seed(0);
  Net model;
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  auto [net, opt] = accelerator.prepare(model, optimizer);
  for ([[maybe_unused]] auto epoch : accelerator.epochs(3)) {
    for (auto& batch : loader) {
      auto window = accelerator.accumulate(net);
      const auto tokens = batch.filler ? 0.0 : batch.target.ge(0).sum().item<double>();
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data).flatten(0, 1), batch.target.flatten());
      accelerator.backward(loss, recipe == "right" || batch.filler ? tokens : 1.0);
      if (window.sync_gradients()) accelerator.clip_grad_norm(net->parameters(), 0.1);
      opt.step();
      opt.zero_grad();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "tokens: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
