#pragma once

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

#include "samerun/core/error.h"
#include "samerun/runtime/accelerator.h"

namespace samerun {

/// Each case starts from a plain environment.
class AcceleratorTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : {"SAMERUN_REPLAY_WORLD", "SAMERUN_PRECISION", "SAMERUN_STOP_AFTER_STEPS"}) ::unsetenv(name);
  }
};

constexpr double kRounding = 1e-14;  // float64 sums of a few dozen terms in another order

struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(9);
    first = register_module("first", torch::nn::Linear(3, 4));
    second = register_module("second", torch::nn::Linear(4, 2));
    count = register_buffer("count", torch::zeros({1}, at::kLong));
    to_double();
  }
  void to_double() {
    for (auto& parameter : parameters()) parameter.set_data(parameter.to(at::kDouble));
  }
  torch::Tensor forward(const torch::Tensor& x) { return second(torch::tanh(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::Tensor count;
};
TORCH_MODULE(Net);

struct Rows {
  explicit Rows(std::int64_t count) {
    torch::manual_seed(4);
    data = torch::randn({count, 3}, at::kDouble);
    target = torch::randn({count, 2}, at::kDouble);
  }
  std::shared_ptr<Dataset> dataset() const { return tensor_dataset("rows", data, target); }
  torch::Tensor data, target;
};

inline torch::Tensor squared(const torch::Tensor& out, const torch::Tensor& target) {
  return (out - target).pow(2).sum(1).mean();
}

inline std::vector<torch::Tensor> gradients(Net& net) {
  std::vector<torch::Tensor> result;
  for (const auto& parameter : net->parameters()) result.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
  return result;
}

/// Gradient of the mean loss over these rows, taken as one batch.
inline std::vector<torch::Tensor> whole_gradient(Net& net, const Rows& rows, const std::vector<std::int64_t>& ids) {
  const auto index = torch::tensor(ids);
  const auto loss = squared(net->forward(rows.data.index_select(0, index)), rows.target.index_select(0, index));
  return torch::autograd::grad({loss}, net->parameters());
}

inline double distance(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  double square = 0, scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined()) return INFINITY;
    square += (a[i] - b[i]).pow(2).sum().item<double>();
    scale += b[i].pow(2).sum().item<double>();
  }
  return std::sqrt(square / scale);
}

inline Options options_for(std::int64_t accumulation) {
  Options options = resolve_options(0, nullptr);
  options.accumulation_steps = accumulation;
  return options;
}

/// A loop's objects. The learning rate is 0 unless a test wants steps to act, so gradients can be taken again.
struct Job {
  Job(std::int64_t count, std::int64_t batch, std::int64_t accumulation, double rate = 0, Uneven uneven = Uneven::kFiller)
      : rows(count),
        accelerator(options_for(accumulation)),
        loader(accelerator.prepare_loader(rows.dataset(), {.batch_size = batch, .shuffle = true, .uneven = uneven})),
        optimizer(net->parameters(), torch::optim::SGDOptions(rate)),
        schedule(optimizer, [](std::int64_t step) { return 1.0 / static_cast<double>(step + 1); }),
        handles(accelerator.prepare(net, optimizer, schedule)) {}

  torch::Tensor loss(const Batch& batch) { return squared(net->forward(batch.data), batch.target); }
  Optimizer& opt() { return std::get<1>(handles); }
  Scheduler& sched() { return std::get<2>(handles); }
  /// forward, backward, step of one batch.
  void train(const Batch& batch) {
    accelerator.backward(loss(batch), static_cast<double>(batch.size));
    opt().step();
    opt().zero_grad();
  }

  Rows rows;
  Accelerator accelerator;
  Loader loader;
  Net net;
  torch::optim::SGD optimizer;
  LrSchedule schedule;
  std::tuple<Net, Optimizer, Scheduler> handles;
};

template <class Act>
std::string refusal(Act act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "(accepted)";
}

#define EXPECT_REFUSED(act, text)                                       \
  do {                                                                  \
    const std::string said = refusal([&] { act; });                     \
    EXPECT_NE(said.find(text), std::string::npos) << #act ": " << said; \
  } while (false)

}  // namespace samerun
