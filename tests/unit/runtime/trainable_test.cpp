#include "trainable.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "streams.h"

namespace samerun::detail {
namespace {

/// A tied parameter, a frozen one, buffers of three dtypes.
struct Net : torch::nn::Module {
  Net() {
    torch::manual_seed(3);
    first = register_module("first", torch::nn::Linear(4, 4));
    second = register_module("second", torch::nn::Linear(4, 4));
    tied = register_parameter("tied", first->weight);
    frozen = register_parameter("frozen", torch::ones({2}), /*requires_grad=*/false);
    running = register_buffer("running", torch::rand({3}));
    count = register_buffer("count", torch::tensor(std::int64_t{9007199254740993}));  // 2^53 + 1: not a double
    mask = register_buffer("mask", torch::tensor({true, false}));
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  torch::Tensor tied, frozen, running, count, mask;
};

std::vector<std::string> names(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> result;
  for (const auto& item : tensors) result.push_back(item.name);
  return result;
}

TEST(TrainableTest, EachTensorIsThereOnceAndFrozenOnesAreNotTrained) {
  Net net;
  const Trainable trainable(net);
  EXPECT_EQ(names(trainable.parameters()), (std::vector<std::string>{"tied", "first.bias", "second.weight", "second.bias"}));
  EXPECT_EQ(names(trainable.state()),
            (std::vector<std::string>{"tied", "frozen", "first.bias", "second.weight", "second.bias", "running", "count", "mask"}));
}

TEST(TrainableTest, TheDescriptionNamesShapeDtypeAndWhetherTrained) {
  Net net;
  const auto lines = Trainable(net).description();
  EXPECT_NE(std::find(lines.begin(), lines.end(), "second.weight float32 [4,4,] trained"), lines.end());
  EXPECT_NE(std::find(lines.begin(), lines.end(), "frozen float32 [2,] frozen"), lines.end());
  EXPECT_NE(std::find(lines.begin(), lines.end(), "count int64 [] frozen"), lines.end());
}

TEST(TrainableTest, WideningKeepsTheTensorsThatAnOptimizerHolds) {
  Net net;
  torch::optim::SGD optimizer(net.parameters(), 0.5);
  const Trainable trainable(net);
  const auto before = net.second->weight.detach().clone();
  const void* impl = net.second->weight.unsafeGetTensorImpl();
  trainable.widen();
  EXPECT_EQ(net.second->weight.unsafeGetTensorImpl(), impl);
  EXPECT_EQ(net.second->weight.scalar_type(), at::kDouble);
  EXPECT_TRUE(net.second->weight.detach().equal(before.to(at::kDouble)));
  EXPECT_TRUE(net.tied.is_same(net.first->weight));
  net.second->forward(torch::ones({1, 4}, at::kDouble)).sum().backward();
  optimizer.step();
  EXPECT_TRUE(net.second->weight.detach().equal(before.to(at::kDouble) - 0.5)) << "the optimizer steps the widened tensor";
}

TEST(TrainableTest, WideningLeavesIntegersAndBooleansAsTheyAre) {
  Net net;
  Trainable(net).widen();
  EXPECT_EQ(net.running.scalar_type(), at::kDouble);
  EXPECT_EQ(net.frozen.scalar_type(), at::kDouble);
  EXPECT_EQ(net.count.scalar_type(), at::kLong);
  EXPECT_EQ(net.count.item<std::int64_t>(), 9007199254740993);
  EXPECT_EQ(net.mask.scalar_type(), at::kBool);
}

TEST(TrainableTest, WideningAfterABackwardPassLetsTheNextOneRunInFloat64) {
  Net net;
  const Trainable trainable(net);
  net.second->forward(torch::ones({1, 4})).sum().backward();
  trainable.reset_gradients();
  trainable.widen();
  net.second->forward(torch::ones({1, 4}, at::kDouble)).sum().backward();
  EXPECT_EQ(net.second->weight.grad().scalar_type(), at::kDouble);
}

TEST(TrainableTest, APerturbationMovesEachFloatingElementByTwoUnitsAndIsRepeatable) {
  Net one, two;
  const Trainable first(one), second(two);
  const auto before = one.second->weight.detach().clone();
  first.perturb(11);
  second.perturb(11);
  const auto ratio = (one.second->weight.detach().to(at::kDouble) / before.to(at::kDouble) - 1).abs();
  EXPECT_GT(ratio.min().item<double>(), 0);
  EXPECT_LT(ratio.max().item<double>(), 4 * std::ldexp(1.0, -24));
  EXPECT_TRUE(one.second->weight.equal(two.second->weight));
  EXPECT_EQ(one.count.item<std::int64_t>(), 9007199254740993);
}

TEST(StreamsTest, OneSeedGivesTheSameDropoutMaskInBothPrecisions) {
  for (const std::uint32_t seed : {0U, 1U, 0xffffffffU}) {
    seed_generator(seed);
    const auto narrow = torch::dropout(torch::ones({1000}), 0.3, true) != 0;
    seed_generator(seed);
    const auto wide = torch::dropout(torch::ones({1000}, at::kDouble), 0.3, true) != 0;
    EXPECT_TRUE(narrow.equal(wide)) << seed;
    EXPECT_LT(narrow.sum().item<std::int64_t>(), 1000);
  }
}

TEST(StreamsTest, TheDigestOfTheGeneratorChangesWithTheFirstNumberDrawn) {
  seed_generator(5);
  const auto before = generator_state_digest();
  EXPECT_EQ(generator_state_digest(), before);
  torch::rand({1});
  EXPECT_NE(generator_state_digest(), before);
  seed_generator(5);
  EXPECT_EQ(generator_state_digest(), before);
}

}  // namespace
}  // namespace samerun::detail
