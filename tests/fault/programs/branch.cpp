// G17: a branch that only rank 0 takes. Its layer gets no gradient on the other ranks, and with
// find_unused_parameters no error says so: what the ranks train is no longer one program.
#include <samerun/samerun.h>
#include <torch/torch.h>

#include <iostream>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() {
    trunk = register_module("trunk", torch::nn::Linear(8, 16));
    branch = register_module("branch", torch::nn::Linear(16, 16));
    head = register_module("head", torch::nn::Linear(16, 2));
  }
  torch::Tensor forward(torch::Tensor x, bool take_branch) {
    x = torch::tanh(trunk(x));
    if (take_branch) x = x + torch::tanh(branch(x));
    return head(x);
  }
  torch::nn::Linear trunk{nullptr}, branch{nullptr}, head{nullptr};
};
TORCH_MODULE(Net);

void train(int argc, char** argv) {
  const bool by_rank = argc > 1 && std::string(argv[1]) == "--branch-by-rank";
  const bool find_unused = argc > 2 && std::string(argv[2]) == "--find-unused";
  auto options = samerun::options_from(argc, argv);
  options.find_unused_parameters = find_unused;
  options.accumulation_steps = 2;
  samerun::Accelerator accelerator(options);
  torch::manual_seed(1);
  const auto data = torch::randn({101, 8});
  const auto target = (data.sum(1) > 0).to(torch::kLong);
  torch::manual_seed(0);
  auto loader = accelerator.prepare_loader(samerun::tensor_dataset("signs", data, target), {.batch_size = 4, .shuffle = true});
  Net model;
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  auto [net, opt] = accelerator.prepare(model, optimizer);
  for ([[maybe_unused]] auto epoch : accelerator.epochs(2)) {
    for (auto& batch : loader) {
      auto window = accelerator.accumulate(net);
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data, !by_rank || accelerator.rank() == 0), batch.target);
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
    std::cerr << "branch: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
