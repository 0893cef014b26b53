#include "reducer.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace samerun::detail {
namespace {

/// A net whose gradients round differently with every order of summation, and one parameter that a micro-batch may leave out.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(5);
    first = register_module("first", torch::nn::Linear(6, 5));
    second = register_module("second", torch::nn::Linear(5, 3));
    sometimes = register_parameter("sometimes", torch::ones({3}));
  }
  torch::Tensor loss(const torch::Tensor& rows, bool all) {
    auto out = second(torch::tanh(first(rows)));
    if (all) out = out * sometimes;
    return out.pow(2).mean();
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::Tensor sometimes;
};

torch::Tensor batch(std::int64_t index) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + index));
  return torch::randn({4, 6}) * static_cast<double>(1 + index * index);
}

bool all_parameters(std::int64_t index) {
  return index % 2 == 0;
}

/// Gradient of one micro-batch, alone.
std::vector<at::Tensor> own_gradients(Net& net, const Trainable& model, std::int64_t index) {
  model.reset_gradients();
  (net.loss(batch(index), all_parameters(index)) * 4).backward();
  auto gradients = model.gradients();
  model.reset_gradients();
  return gradients;
}

void add(std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from) {
  to.resize(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i].defined()) to[i] = to[i].defined() ? to[i] + from[i] : from[i];
  }
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined() || (a[i].defined() && !a[i].equal(b[i]))) return false;
  }
  return true;
}

/// Runs `count` micro-batches dealt over the accumulators in turn; the gradients after the last.
std::vector<at::Tensor> reduced(Net& net, const Trainable& model, GradientReducer& reducer, int accumulators, int count, bool locked) {
  for (int i = 0; i < count; ++i) {
    MicroBatch micro;
    micro.accumulator = i % accumulators;
    micro.micro_index = i / accumulators;
    micro.last = i + 1 == count;
    micro.locked = locked;
    reducer.backward(net.loss(batch(i), all_parameters(i)) * 4, micro);
  }
  std::vector<at::Tensor> gradients;
  for (const auto& gradient : model.gradients()) gradients.push_back(gradient.defined() ? gradient.clone() : at::Tensor());
  return gradients;
}

std::vector<std::vector<at::Tensor>> sums_by_hand(Net& net, const Trainable& model, int accumulators, int count) {
  std::vector<std::vector<at::Tensor>> sums(static_cast<std::size_t>(accumulators));
  for (int i = 0; i < count; ++i) add(sums[static_cast<std::size_t>(i % accumulators)], own_gradients(net, model, i));
  return sums;
}

TEST(LocalReducerTest, AccumulatorsAreSummedAloneAndThenInRankOrder) {
  Net net;
  const Trainable model(net);
  for (const int accumulators : {1, 2, 3, 4}) {
    auto sums = sums_by_hand(net, model, accumulators, 7);
    std::vector<at::Tensor> expected;
    for (const auto& sum : sums) add(expected, sum);
    const auto reducer = make_local_reducer(model, {.accumulators = accumulators}, nullptr);
    EXPECT_TRUE(equal(reduced(net, model, *reducer, accumulators, 7, false), expected)) << accumulators;
  }
}

TEST(LocalReducerTest, TheMeasuredPathHasTheBitsOfThePlainOne) {
  Net net;
  const Trainable model(net);
  for (const int accumulators : {1, 3}) {
    const auto plain = make_local_reducer(model, {.accumulators = accumulators}, nullptr);
    const auto measured = make_local_reducer(model, {.accumulators = accumulators, .measure_absolute = true}, nullptr);
    const auto expected = reduced(net, model, *plain, accumulators, 7, true);
    plain->reset();
    EXPECT_TRUE(equal(reduced(net, model, *measured, accumulators, 7, true), expected)) << accumulators;
    measured->reset();
    EXPECT_TRUE(equal(reduced(net, model, *measured, accumulators, 7, false), expected)) << "a step that is not locked";
  }
}

TEST(LocalReducerTest, AbsoluteSumsAreTheSumOfEachMicroBatchsMagnitudes) {
  Net net;
  const Trainable model(net);
  const auto reducer = make_local_reducer(model, {.accumulators = 2, .measure_absolute = true}, nullptr);
  for (const int round : {0, 1}) {
    std::vector<at::Tensor> expected(model.parameters().size());
    for (int i = 0; i < 5; ++i) {
      const auto own = own_gradients(net, model, i);
      for (std::size_t k = 0; k < own.size(); ++k) {
        if (own[k].defined())
          expected[k] = (expected[k].defined() ? expected[k] : at::zeros_like(own[k], at::kDouble)) + own[k].abs().to(at::kDouble);
      }
    }
    reduced(net, model, *reducer, 2, 5, true);
    EXPECT_TRUE(equal(reducer->absolute_sums(), expected)) << "window " << round;
    reducer->reset();
    EXPECT_TRUE(reducer->absolute_sums().empty());
  }
}

TEST(LocalReducerTest, VariationsAreOtherOrdersOfTheSameSum) {
  Net net;
  const Trainable model(net);
  auto sums = sums_by_hand(net, model, 4, 8);
  std::vector<at::Tensor> backwards, left = sums[0], right = sums[2];
  for (int k = 3; k >= 0; --k) add(backwards, sums[static_cast<std::size_t>(k)]);
  add(left, sums[1]);
  add(right, sums[3]);
  add(left, right);
  const auto odd = make_local_reducer(model, {.accumulators = 4, .variation = 1}, nullptr);
  EXPECT_TRUE(equal(reduced(net, model, *odd, 4, 8, false), backwards));
  odd->reset();
  const auto even = make_local_reducer(model, {.accumulators = 4, .variation = 2}, nullptr);
  EXPECT_TRUE(equal(reduced(net, model, *even, 4, 8, false), left));
}

TEST(LocalReducerTest, OnALockedStepTheRunningGradientsAreReported) {
  Net net;
  const Trainable model(net);
  std::vector<std::vector<at::Tensor>> expected(2);
  int calls = 0;
  for (const bool measure : {false, true}) {
    for (auto& sum : expected) sum.clear();
    const auto reducer = make_local_reducer(model, {.accumulators = 2, .measure_absolute = measure},
                                            [&](const std::vector<at::Tensor>& running, const MicroBatch& micro) {
                                              auto& sum = expected[static_cast<std::size_t>(micro.accumulator)];
                                              std::vector<at::Tensor> seen;
                                              for (const auto& value : running) seen.push_back(value.defined() ? value.clone() : at::Tensor());
                                              const auto index = micro.micro_index * 2 + micro.accumulator;
                                              std::vector<at::Tensor> kept;
                                              for (const auto& parameter : model.parameters()) kept.push_back(parameter.tensor.grad());
                                              add(sum, own_gradients(net, model, index));
                                              for (std::size_t i = 0; i < kept.size(); ++i)
                                                at::Tensor(model.parameters()[i].tensor).mutable_grad() = kept[i];
                                              EXPECT_TRUE(equal(seen, sum)) << "micro-batch " << index;
                                              ++calls;
                                            });
    reduced(net, model, *reducer, 2, 4, true);
    reducer->reset();
    reduced(net, model, *reducer, 2, 4, false);
    reducer->reset();
  }
  EXPECT_EQ(calls, 8);
}

}  // namespace
}  // namespace samerun::detail
