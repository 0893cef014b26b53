// A clean program with BatchNorm: its running statistics must be one rank's, at any number of ranks.
#include <samerun/samerun.h>
#include <torch/torch.h>

#include <iostream>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    hidden = register_module("hidden", torch::nn::Linear(8 * 6 * 6, 16));
    average = register_module("average", torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(16).momentum(std::nullopt)));
    head = register_module("head", torch::nn::Linear(16, 2));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm(conv(x)));
    return head(torch::tanh(average(hidden(x.flatten(1)))));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear hidden{nullptr}, head{nullptr};
  torch::nn::BatchNorm1d average{nullptr};
};
TORCH_MODULE(Net);

void train(int argc, char** argv) {
  auto options = samerun::options_from(argc, argv);
  options.accumulation_steps = 2;
  samerun::Accelerator accelerator(options);
  torch::manual_seed(5);
  const auto data = torch::randn({103, 1, 8, 8});
  const auto target = data.sum({1, 2, 3}).gt(0).to(torch::kLong);
  torch::manual_seed(0);
  auto loader = accelerator.prepare_loader(samerun::tensor_dataset("noise", data, target), {.batch_size = 8, .shuffle = true, .workers = 2});
  Net model;
  torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));
  auto [net, opt] = accelerator.prepare(model, optimizer);
  for ([[maybe_unused]] auto epoch : accelerator.epochs(3)) {
    net->train();
    for (auto& batch : loader) {
      auto window = accelerator.accumulate(net);
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      accelerator.backward(loss);
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
    std::cerr << "batchnorm: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
