// Trains a small GPT on the characters of the Jargon File, English prose in the public domain: samples of uneven length, a loss weighted by
// tokens, and a block whose activations are computed again in the backward pass.
//
//   gpt [--data FILE] [--epochs N] [--samples N] [--accumulation N] [--recompute on|off] [--device cpu|cuda|auto]
//
// A plain libtorch loop; the lines that Samerun adds end in "// samerun".
#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include <samerun/samerun.h>  // samerun

namespace {

constexpr std::int64_t kVocabulary = 96;  // 0: start and end of a sample; 1..95: the printable ASCII characters
constexpr std::int64_t kContext = 96;     // characters of a sample, with its end
constexpr std::int64_t kWidth = 64, kHeads = 4, kBlocks = 2;
constexpr double kDropout = 0.05;
constexpr std::int64_t kBatch = 8;
constexpr std::int64_t kIgnored = -100;  // target of a padded place
constexpr std::int64_t kHeldOut = 24;    // every so many-th sample is for validation

struct Arguments {
  std::string data = ".deps/data/jargon.txt";
  std::int64_t epochs = 2;
  std::int64_t samples = 8000;    // at most; part of the text
  std::int64_t accumulation = 2;  // micro-batches a step and rank
  bool recompute = true;
  std::string device;
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::string value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--data" && i + 1 < argc) {
      arguments.data = value;
    } else if (word == "--epochs" && std::atoll(value.c_str()) > 0) {
      arguments.epochs = std::atoll(value.c_str());
    } else if (word == "--samples" && std::atoll(value.c_str()) > 0) {
      arguments.samples = std::atoll(value.c_str());
    } else if (word == "--accumulation" && std::atoll(value.c_str()) > 0) {
      arguments.accumulation = std::atoll(value.c_str());
    } else if (word == "--recompute" && (value == "on" || value == "off")) {
      arguments.recompute = value == "on";
    } else if (word == "--device" && !value.empty()) {
      arguments.device = value;
    } else {
      throw std::runtime_error(
          "unknown argument '" + word +
          "'; usage: gpt [--data FILE] [--epochs N] [--samples N] [--accumulation N] [--recompute on|off] [--device cpu|cuda|auto]");
    }
    ++i;
  }
  return arguments;
}

// The paragraphs of the text, white space between words made one space. Typographic quotes and dashes become ASCII;
// paragraphs with other characters (tables) are left out.
std::vector<std::string> read_paragraphs(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot open " + path + ": run scripts/fetch_data, or name the file with --data");
  std::string text{std::istreambuf_iterator<char>(in), {}};
  static const std::array<std::pair<std::string, std::string>, 6> kPlain{
      {{"\u2018", "'"}, {"\u2019", "'"}, {"\u201c", "\""}, {"\u201d", "\""}, {"\u2014", "-"}, {"\u00a0", " "}}};
  for (const auto& [from, to] : kPlain)
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos;) text.replace(at, from.size(), to);
  std::vector<std::string> paragraphs(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (!(words >> word)) paragraphs.emplace_back();  // an empty line
    for (auto& paragraph = paragraphs.back(); words; words >> word) paragraph += (paragraph.empty() ? "" : " ") + word;
  }
  std::erase_if(paragraphs, [](const std::string& paragraph) {
    return paragraph.size() < 16 || std::any_of(paragraph.begin(), paragraph.end(), [](char c) { return c < ' ' || c > '~'; });
  });
  return paragraphs;
}

// Paragraphs cut between words so that each piece and its end fit the context.
std::vector<std::string> cut(const std::vector<std::string>& paragraphs, std::int64_t most) {
  std::vector<std::string> pieces;
  for (std::string rest : paragraphs) {
    while (static_cast<std::int64_t>(rest.size()) >= kContext) {
      auto at = rest.rfind(' ', kContext - 1);
      if (at == std::string::npos || at == 0) at = kContext - 1;
      pieces.push_back(rest.substr(0, at));
      rest = rest.substr(rest[at] == ' ' ? at + 1 : at);
    }
    if (!rest.empty()) pieces.push_back(rest);
  }
  if (static_cast<std::int64_t>(pieces.size()) > most) pieces.resize(static_cast<std::size_t>(most));
  return pieces;
}

struct Samples {
  torch::Tensor inputs, targets;  // [N, kContext] each; target t is input t + 1
};

Samples encode(const std::vector<std::string>& pieces, bool held_out) {
  std::vector<std::int64_t> inputs, targets;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if ((i % kHeldOut == kHeldOut - 1) != held_out) continue;
    for (std::size_t t = 0; t < kContext; ++t) {
      const auto token = [&](std::size_t place) { return place < pieces[i].size() ? pieces[i][place] - ' ' + 1 : 0; };
      inputs.push_back(t == 0 ? 0 : token(t - 1));
      targets.push_back(t <= pieces[i].size() ? token(t) : kIgnored);
    }
  }
  return {torch::tensor(inputs).view({-1, kContext}), torch::tensor(targets).view({-1, kContext})};
}

// Entropy of a table of counts in nats: of the column within its row, rows weighted by their sums.
double entropy(const torch::Tensor& counts) {
  const auto rows = counts.sum(1, true);
  return -(torch::xlogy(counts, counts / rows.clamp_min(1)).sum() / counts.sum()).item<double>();
}

// What the best model of single characters, and of characters given the one before, would reach on these samples.
std::pair<double, double> entropies(const Samples& samples) {
  const auto real = samples.targets.ne(kIgnored);
  const auto before = samples.inputs.masked_select(real), next = samples.targets.masked_select(real);
  const auto counts = torch::bincount(before * kVocabulary + next, {}, kVocabulary * kVocabulary).to(torch::kDouble).view({kVocabulary, kVocabulary});
  return {entropy(counts.sum(0, true)), entropy(counts)};
}

struct BlockImpl : torch::nn::Module {
  BlockImpl() {
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    attention = register_module("attention", torch::nn::Linear(kWidth, 3 * kWidth));
    output = register_module("output", torch::nn::Linear(kWidth, kWidth));
    expand = register_module("expand", torch::nn::Linear(kWidth, 4 * kWidth));
    contract = register_module("contract", torch::nn::Linear(4 * kWidth, kWidth));
    dropout = register_module("dropout", torch::nn::Dropout(kDropout));
  }
  // [batch, time, width]; a place sees itself and what is before it, so padding at the end is seen by padding only.
  torch::Tensor forward(const torch::Tensor& x) {
    const auto batch = x.size(0), time = x.size(1);
    const auto parts = attention(norm1(x)).view({batch, time, 3, kHeads, kWidth / kHeads}).permute({2, 0, 3, 1, 4});
    const auto seen = at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true);
    const auto y = x + dropout(output(seen.transpose(1, 2).reshape({batch, time, kWidth})));
    return y + dropout(contract(torch::gelu(expand(norm2(y)))));
  }
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear attention{nullptr}, output{nullptr}, expand{nullptr}, contract{nullptr};
  torch::nn::Dropout dropout{nullptr};
};
TORCH_MODULE(Block);

// What dropout draws from on this device.
at::Generator generator(c10::Device device) {
  return at::globalContext().defaultGenerator(device);
}

// A block that keeps its input only. Its activations are computed again in the backward pass, from the same random numbers.
struct Recomputed : torch::autograd::Function<Recomputed> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, BlockImpl* block, const torch::Tensor& x, at::TensorList /*parameters*/) {
    context->save_for_backward({x});
    context->saved_data["block"] = reinterpret_cast<std::int64_t>(block);
    context->saved_data["random"] = generator(x.device()).get_state();
    return block->forward(x);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context, const torch::autograd::variable_list& gradients) {
    auto* block = reinterpret_cast<BlockImpl*>(context->saved_data["block"].toInt());
    const auto x = context->get_saved_variables()[0].detach().requires_grad_();
    auto drawing = generator(x.device());
    const auto random_now = drawing.get_state();
    drawing.set_state(context->saved_data["random"].toTensor());
    torch::Tensor y;
    {
      const torch::AutoGradMode record(true);
      y = block->forward(x);
    }
    drawing.set_state(random_now);
    torch::autograd::variable_list inputs = block->parameters();
    inputs.insert(inputs.begin(), x);
    auto result = torch::autograd::grad({y}, inputs, gradients);
    result.insert(result.begin(), torch::Tensor());  // of the pointer
    return result;
  }
};

struct GptImpl : torch::nn::Module {
  explicit GptImpl(bool recompute_first) : recompute(recompute_first) {
    tokens = register_parameter("tokens", torch::randn({kVocabulary, kWidth}) * 0.05);
    places = register_parameter("places", torch::randn({kContext, kWidth}) * 0.05);
    for (std::int64_t i = 0; i < kBlocks; ++i) blocks.push_back(register_module("block" + std::to_string(i), Block()));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  }
  // [batch, time] of tokens to [batch, time, vocabulary]. The embedding of tokens is the output's matrix too.
  torch::Tensor forward(const torch::Tensor& input) {
    auto x = torch::embedding(tokens, input) + places;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto parameters = blocks[i]->parameters();
      const bool again = recompute && i == 0 && torch::GradMode::is_enabled();
      x = again ? Recomputed::apply(blocks[i].get(), x, at::TensorList(parameters)) : blocks[i](x);
    }
    return torch::matmul(norm(x), tokens.t());
  }
  bool recompute;
  torch::Tensor tokens, places;
  std::vector<Block> blocks;
  torch::nn::LayerNorm norm{nullptr};
};
TORCH_MODULE(Gpt);

// Matrices decay, vectors (norms, biases) do not.
std::vector<torch::optim::OptimizerParamGroup> groups(Gpt& model) {
  std::vector<torch::Tensor> matrices, vectors;
  for (const auto& parameter : model->parameters()) (parameter.dim() >= 2 ? matrices : vectors).push_back(parameter);
  const auto options = [](double decay) {
    return std::make_unique<torch::optim::AdamWOptions>(torch::optim::AdamWOptions(4e-3).weight_decay(decay));
  };
  std::vector<torch::optim::OptimizerParamGroup> result;
  result.emplace_back(matrices, options(0.1));
  result.emplace_back(vectors, options(0));
  return result;
}

// [batch, time]; 0 at padded places.
torch::Tensor losses(const torch::Tensor& logits, const torch::Tensor& target) {
  return at::cross_entropy_loss(logits.transpose(1, 2), target, {}, at::Reduction::None, kIgnored);
}

// Rows of (loss a token, tokens), and of (predicted, true) character in the middle of each sample.
std::pair<torch::Tensor, torch::Tensor> judge(const torch::Tensor& logits, const torch::Tensor& target) {
  const auto tokens = target.ne(kIgnored).sum(1);
  const auto middle = tokens.div(2, "floor").unsqueeze(1);
  return {torch::stack({losses(logits, target).sum(1) / tokens, tokens}, 1),
          torch::cat({logits.argmax(2).gather(1, middle), target.gather(1, middle)}, 1)};
}

void train(int argc, char** argv) {
  const auto arguments = parse(argc, argv);
  const auto pieces = cut(read_paragraphs(arguments.data), arguments.samples);
  const auto training = encode(pieces, false), validation = encode(pieces, true);
  const auto [unigram, bigram] = entropies(validation);

  auto options = samerun::options_from(argc, argv);     // samerun
  options.accumulation_steps = arguments.accumulation;  // samerun
  if (!arguments.device.empty()) options.device = arguments.device;
  samerun::Accelerator accelerator(options);  // samerun
  auto train_loader =
      accelerator.prepare_loader(samerun::tensor_dataset("jargon-train", training.inputs, training.targets), {.batch_size = kBatch, .shuffle = true});
  auto validation_loader = accelerator.prepare_loader(samerun::tensor_dataset("jargon-validation", validation.inputs, validation.targets),
                                                      {.batch_size = 64, .training = false});

  Gpt model(arguments.recompute);
  model->to(accelerator.device());
  torch::optim::AdamW optimizer(groups(model));
  const auto total_steps = arguments.epochs * train_loader.steps();
  auto schedule = samerun::linear_warmup_decay(optimizer, std::min<std::int64_t>(20, total_steps / 4), total_steps);
  auto [net, opt, sched] = accelerator.prepare(model, optimizer, schedule);  // samerun
  if (accelerator.resuming()) accelerator.load_state();                      // samerun

  for (auto epoch : accelerator.epochs(arguments.epochs)) {
    net->train();
    for (auto& batch : train_loader) {
      auto window = accelerator.accumulate(net);  // samerun
      const auto tokens = batch.target.ne(kIgnored).sum().item<double>();
      const auto loss = losses(net->forward(batch.data), batch.target).sum() / tokens;
      accelerator.backward(loss, tokens);                                               // samerun
      if (window.sync_gradients()) accelerator.clip_grad_norm(net->parameters(), 1.0);  // samerun
      opt.step();
      sched.step();
      opt.zero_grad();
    }

    net->eval();
    const torch::NoGradGuard no_grad;
    for (auto& batch : validation_loader) {
      const auto [loss_rows, character_rows] = judge(net->forward(batch.data), batch.target);
      accelerator.metric("validation_loss", loss_rows, samerun::MetricRule::weighted_mean());  // samerun
      accelerator.metric("character_f1", character_rows, samerun::MetricRule::f1_macro());     // samerun
    }
    const double loss = accelerator.metric_value("validation_loss");  // samerun
    const double f1 = accelerator.metric_value("character_f1");       // samerun
    char line[160];
    std::snprintf(line, sizeof line, "epoch %2lld  validation loss %.4f nats a character (unigram entropy %.4f, bigram %.4f)  character F1 %.4f",
                  static_cast<long long>(epoch) + 1, loss, unigram, bigram, f1);
    accelerator.print(line);
    accelerator.save_state();  // samerun
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc, argv);
  } catch (const c10::Error& error) {
    std::cerr << "gpt: " << error.what_without_backtrace() << "\n";  // what() goes on with a stack trace
    return 1;
  } catch (const std::exception& error) {
    std::cerr << "gpt: " << error.what() << "\n";
    return 1;
  }
  return 0;
}
