// Programs with something of a rank's own: local WORD [SHARE].
//   log-rank, log-mean          each step logs rank 0's own loss (M04); the mean over ranks
//   epoch-rank, epoch-mean      the same once an epoch
//   evaluate                    an evaluation whose rows are gathered; its padding must not count
//   augment                     a data set with a random transform, seeded sample by sample
//   recompute SHARE             a block that is computed again in the backward pass, with dropout of SHARE; SAMERUN_FAULT=G30: with other masks
#include <ATen/CPUGeneratorImpl.h>
#include <samerun/samerun.h>
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>
#include <optional>

namespace {

constexpr std::int64_t kRows = 101, kWidth = 8;

// Each row comes with noise that is drawn anew in every epoch.
class Noisy final : public samerun::Dataset {
 public:
  Noisy(torch::Tensor data, torch::Tensor target) : data_(std::move(data)), target_(std::move(target)) {}
  std::string name() const override { return "noisy"; }
  std::int64_t size() const override { return data_.size(0); }
  samerun::Batch get(const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>& seeds) const override {
    const torch::NoGradGuard guard;
    std::vector<torch::Tensor> rows;
    for (std::size_t k = 0; k < ids.size(); ++k)
      rows.push_back(data_[ids[k]] + 0.1 * at::randn({kWidth}, at::detail::createCPUGenerator(seeds[k]), torch::TensorOptions()));
    samerun::Batch batch;
    batch.data = torch::stack(rows);
    batch.target = target_.index_select(0, torch::tensor(ids));
    return batch;
  }

 private:
  torch::Tensor data_, target_;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(double share) {
    linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
    dropout = register_module("dropout", torch::nn::Dropout(share));
  }
  torch::Tensor forward(const torch::Tensor& x) { return dropout(torch::tanh(linear(x))); }
  torch::nn::Linear linear{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Block);

bool fresh_masks() {
  const char* fault = std::getenv("SAMERUN_FAULT");
  return fault != nullptr && std::string(fault) == "G30";
}

// Keeps the block's input only, as the gpt example does.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, BlockImpl* block, const torch::Tensor& x, at::TensorList /*parameters*/) {
    context->save_for_backward({x});
    context->saved_data["block"] = reinterpret_cast<std::int64_t>(block);
    context->saved_data["random"] = at::detail::getDefaultCPUGenerator().get_state();
    return block->forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    auto* block = reinterpret_cast<BlockImpl*>(context->saved_data["block"].toInt());
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    at::Generator drawing = at::detail::getDefaultCPUGenerator();
    if (!fresh_masks()) drawing.set_state(context->saved_data["random"].toTensor());
    torch::Tensor y;
    {
      const torch::AutoGradMode record(true);
      y = block->forward(x);
    }
    torch::autograd::variable_list inputs = block->parameters();
    inputs.insert(inputs.begin(), x);
    auto result = torch::autograd::grad({y}, inputs, gradients);
    result.insert(result.begin(), torch::Tensor());  // of the pointer
    return result;
  }
};

struct NetImpl : torch::nn::Module {
  NetImpl(double share, bool again) : recompute(again) {
    block = register_module("block", Block(share));
    head = register_module("head", torch::nn::Linear(kWidth, 2));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto parameters = block->parameters();
    return head(recompute ? Recomputed::apply(block.get(), x, at::TensorList(parameters)) : block(x));
  }
  bool recompute;
  Block block{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(Net);

/// Of rows that every rank gathers, each sample once.
double accuracy(samerun::Accelerator& accelerator, Net& net, samerun::Loader& loader) {
  const torch::NoGradGuard guard;
  double right = 0, all = 0;
  net->eval();
  for (auto& batch : loader) {
    const auto rows = accelerator.gather_for_metrics(net->forward(batch.data).argmax(1).eq(batch.target));
    right += rows.sum().item<double>();
    all += static_cast<double>(rows.size(0));
  }
  net->train();
  return right / all;
}

/// Mean over all samples that the ranks' sums are over.
double mean_over_ranks(samerun::Accelerator& accelerator, double sum, double count) {
  const auto sums = accelerator.reduce(torch::tensor({sum, count}, torch::kDouble));
  return (sums[0] / sums[1]).item<double>();
}

void train(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "augment";
  const double share = argc > 2 ? std::atof(argv[2]) : 0;
  auto options = samerun::options_from(argc, argv);
  options.accumulation_steps = word.starts_with("log") ? 1 : 2;
  samerun::Accelerator accelerator(options);
  torch::manual_seed(1);
  const auto data = torch::randn({kRows, kWidth}), target = (data.sum(1) > 0).to(torch::kLong);
  torch::manual_seed(0);
  std::shared_ptr<samerun::Dataset> dataset = std::make_shared<Noisy>(data, target);
  if (word != "augment") dataset = samerun::tensor_dataset("signs", data, target);
  auto loader = accelerator.prepare_loader(dataset, {.batch_size = 4, .shuffle = true, .workers = 2});
  std::optional<samerun::Loader> evaluation;
  if (word == "evaluate")
    evaluation = accelerator.prepare_loader(samerun::tensor_dataset("all-signs", data, target), {.batch_size = 8, .training = false});
  Net model(share, word == "recompute");
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  auto [net, opt] = accelerator.prepare(model, optimizer);
  for ([[maybe_unused]] auto epoch : accelerator.epochs(2)) {
    double sum = 0, count = 0;
    for (auto& batch : loader) {
      auto window = accelerator.accumulate(net);
      const auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      accelerator.backward(loss);
      opt.step();
      opt.zero_grad();
      const auto size = static_cast<double>(batch.size), value = loss.item<double>();
      if (word == "log-rank") accelerator.log({{"loss", value}});
      if (word == "log-mean") accelerator.log({{"loss", mean_over_ranks(accelerator, value * size, size)}});
      sum += value * size;
      count += size;
    }
    if (word == "epoch-rank") accelerator.log({{"loss", sum / count}});
    if (evaluation) accelerator.log({{"accuracy", accuracy(accelerator, net, *evaluation)}});
    if (word == "epoch-mean") accelerator.log({{"loss", mean_over_ranks(accelerator, sum, count)}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "local: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
