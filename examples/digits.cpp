// Trains a small convolutional net on the 1,797 handwritten digits of the UCI set (8 x 8 pixels, 10 classes).
//
//   digits [--data FILE] [--epochs N] [--accumulation N] [--device cpu|cuda|auto]
//
// A plain libtorch loop; the lines that Samerun adds end in "// samerun".
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include <samerun/samerun.h>  // samerun

namespace {

constexpr std::int64_t kTestSamples = 361;  // divides by neither 2, 3 nor 4
constexpr std::int64_t kBatch = 16;

struct Arguments {
  std::string data = ".deps/data/digits.csv";
  std::int64_t epochs = 20;
  std::int64_t accumulation = 4;  // micro-batches a step and rank
  std::string device;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--data" && i + 1 < argc) {
      arguments.data = argv[++i];
    } else if (word == "--epochs" && i + 1 < argc) {
      arguments.epochs = std::atoll(argv[++i]);
    } else if (word == "--accumulation" && i + 1 < argc) {
      arguments.accumulation = std::atoll(argv[++i]);
    } else if (word == "--device" && i + 1 < argc) {
      arguments.device = argv[++i];
    } else {
      throw std::runtime_error("digits: unknown argument '" + word +
                               "'; usage: digits [--data FILE] [--epochs N] [--accumulation N] [--device cpu|cuda|auto]");
    }
  }
  return arguments;
}

// Each line: 64 pixels of 0..16, then the digit.
std::pair<torch::Tensor, torch::Tensor> read_digits(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot open " + path + ": run scripts/fetch_data, or name the file with --data");
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string field;
    for (int i = 0; i < 64 && std::getline(fields, field, ','); ++i) pixels.push_back(std::strtof(field.c_str(), nullptr) / 16.0F);
    std::getline(fields, field, ',');
    labels.push_back(std::atoll(field.c_str()));
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return {torch::tensor(pixels).view({count, 1, 8, 8}), torch::tensor(labels)};
}

// The test samples are spread evenly over the file, whose writers change along it.
std::pair<torch::Tensor, torch::Tensor> split_rows(std::int64_t count) {
  std::vector<std::int64_t> train, test;
  for (std::int64_t i = 0; i < count; ++i) ((i + 1) * kTestSamples / count > i * kTestSamples / count ? test : train).push_back(i);
  return {torch::tensor(train), torch::tensor(test)};
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).padding(1)));
    conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).padding(1)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({32 * 4 * 4})));
    hidden = register_module("hidden", torch::nn::Linear(32 * 4 * 4, 64));
    dropout = register_module("dropout", torch::nn::Dropout(0.2));
    output = register_module("output", torch::nn::Linear(64, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(conv1(x));
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = norm(x.flatten(1));
    return output(dropout(torch::relu(hidden(x))));
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear hidden{nullptr}, output{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Net);

void train(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  const auto [images, labels] = read_digits(arguments.data);
  const auto [train_rows, test_rows] = split_rows(images.size(0));

  auto options = samerun::options_from(argc, argv);     // samerun
  options.accumulation_steps = arguments.accumulation;  // samerun
  if (!arguments.device.empty()) options.device = arguments.device;
  samerun::Accelerator accelerator(options);  // samerun
  auto train_loader =
      accelerator.prepare_loader(samerun::tensor_dataset("digits-train", images.index_select(0, train_rows), labels.index_select(0, train_rows)),
                                 {.batch_size = kBatch, .shuffle = true});
  auto test_loader =
      accelerator.prepare_loader(samerun::tensor_dataset("digits-test", images.index_select(0, test_rows), labels.index_select(0, test_rows)),
                                 {.batch_size = 64, .training = false});

  Net model;
  model->to(accelerator.device());
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(4e-3).weight_decay(0.01));
  const auto total_steps = arguments.epochs * train_loader.steps();
  auto schedule = samerun::linear_warmup_decay(optimizer, std::min<std::int64_t>(10, total_steps / 4), total_steps);
  auto [net, opt, sched] = accelerator.prepare(model, optimizer, schedule);  // samerun
  if (accelerator.resuming()) accelerator.load_state();                      // samerun

  for (auto epoch : accelerator.epochs(arguments.epochs)) {
    net->train();
    for (auto& batch : train_loader) {
      auto window = accelerator.accumulate(net);  // samerun
      auto loss = torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
      accelerator.backward(loss, static_cast<double>(batch.size));                      // samerun
      if (window.sync_gradients()) accelerator.clip_grad_norm(net->parameters(), 0.5);  // samerun
      opt.step();
      sched.step();
      opt.zero_grad();
    }

    net->eval();
    const torch::NoGradGuard no_grad;
    for (auto& batch : test_loader) {
      const auto correct = net->forward(batch.data).argmax(1).eq(batch.target);
      accelerator.metric("accuracy", correct, samerun::MetricRule::mean());  // samerun
    }
    const double accuracy = accelerator.metric_value("accuracy");  // samerun
    char line[80];
    std::snprintf(line, sizeof line, "epoch %2lld  test accuracy %.4f  (of %lld)", static_cast<long long>(epoch) + 1, accuracy,
                  static_cast<long long>(kTestSamples));
    accelerator.print(line);
    accelerator.save_state();  // samerun
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "digits: " << error.what_without_backtrace() << "\n";  // what() goes on with a stack trace
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "digits: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
