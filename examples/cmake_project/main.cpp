// Fits a line to 256 points: the smallest program that `samerun pair` can judge.
#include <samerun/samerun.h>
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <iostream>

namespace {

void train(int argc, char** argv) {
  samerun::Accelerator accelerator(samerun::options_from(argc, argv));

  const auto x = torch::linspace(-1, 1, 256).unsqueeze(1);
  auto loader = accelerator.prepare_loader(samerun::tensor_dataset("line", x, 3 * x - 1), {.batch_size = 8, .shuffle = true});

  torch::nn::Linear model(1, 1);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  auto [net, opt] = accelerator.prepare(model, optimizer);

  for (auto epoch : accelerator.epochs(3)) {
    torch::Tensor loss;
    for (auto& batch : loader) {
      auto window = accelerator.accumulate(net);
      loss = torch::mse_loss(net->forward(batch.data), batch.target);
      accelerator.backward(loss, static_cast<double>(batch.size));
      opt.step();
      opt.zero_grad();
    }
    char line[64];
    std::snprintf(line, sizeof line, "epoch %lld  loss %.6f", static_cast<long long>(epoch + 1), loss.item<double>());
    accelerator.print(line);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "train: " << error.what_without_backtrace() << "\n";  // what() goes on with a stack trace
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "train: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
