#include "optimizer_leaves.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::optim::OptimizerParamGroup>)>;

struct Kind {
  std::string name;
  Make make;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

template <class Optimizer, class Options>
Kind kind(const std::string& name, const Options& options) {
  return {name, [options](std::vector<torch::optim::OptimizerParamGroup> groups) { return std::make_unique<Optimizer>(std::move(groups), options); }};
}

/// Two parameters in two groups, and one optimizer over them. The second parameter gets no gradient at first.
struct Trained {
  explicit Trained(const Kind& kind) {
    for (const char* name : {"a", "b"}) model.push_back({name, torch::ones({2, 3}).requires_grad_()});
    std::vector<torch::optim::OptimizerParamGroup> groups;
    for (const auto& item : model) groups.emplace_back(std::vector<torch::Tensor>{item.tensor});
    optimizer = kind.make(std::move(groups));
    optimizer->param_groups()[1].options().set_lr(0.03);
  }
  void step(int times, bool both) {
    for (int i = 0; i < times; ++i) {
      for (auto& item : model) item.tensor.mutable_grad().reset();
      auto loss = (model[0].tensor * (i + 1)).pow(3).sum();
      if (both) loss = loss + model[1].tensor.pow(2).sum();
      loss.backward();
      optimizer->step();
    }
  }
  StateTree state() {
    StateTree tree;
    capture_optimizer(*optimizer, model, tree);
    return tree;
  }
  std::vector<NamedTensor> model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
};

/// As it comes from files: in memory of its own.
StateTree copied(const StateTree& tree) {
  StateTree copy;
  for (const auto& [path, leaf] : tree.leaves) {
    if (leaf.tensor.defined()) {
      copy.set(path, leaf.tensor.clone());
    } else {
      copy.set(path, leaf.text);
    }
  }
  return copy;
}

class OptimizerLeavesTest : public testing::TestWithParam<Kind> {};

TEST_P(OptimizerLeavesTest, AFreshOptimizerTakesOverAllStateAndStepsOnWithTheSameBits) {
  Trained saved(GetParam()), loaded(GetParam());
  saved.step(3, true);
  const auto tree = copied(saved.state());
  check_optimizer(*loaded.optimizer, loaded.model, tree);
  poison_optimizer(*loaded.optimizer);
  apply_optimizer(*loaded.optimizer, loaded.model, tree);
  EXPECT_EQ(first_difference(digests_of(tree), digests_of(loaded.state())), std::nullopt);
  const torch::NoGradGuard guard;
  for (std::size_t i = 0; i < 2; ++i) loaded.model[i].tensor.copy_(saved.model[i].tensor);
  const at::AutoGradMode grad(true);
  saved.step(2, true);
  loaded.step(2, true);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(saved.model[i].tensor.equal(loaded.model[i].tensor));
}

TEST_P(OptimizerLeavesTest, StateThatTheSavedOptimizerHadNotMadeIsTakenAway) {
  Trained saved(GetParam()), loaded(GetParam());
  saved.step(1, false);
  loaded.step(2, true);
  const auto tree = copied(saved.state());
  apply_optimizer(*loaded.optimizer, loaded.model, tree);
  EXPECT_EQ(first_difference(digests_of(tree), digests_of(loaded.state())), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(Kinds, OptimizerLeavesTest,
                         testing::Values(kind<torch::optim::AdamW>("AdamW", torch::optim::AdamWOptions(0.01).amsgrad(true)),
                                         kind<torch::optim::Adam>("Adam", torch::optim::AdamOptions(0.01).betas({0.8, 0.9})),
                                         kind<torch::optim::SGD>("SGD", torch::optim::SGDOptions(0.01).momentum(0.9).nesterov(true)),
                                         kind<torch::optim::SGD>("PlainSGD", torch::optim::SGDOptions(0.01)),
                                         kind<torch::optim::RMSprop>("RMSprop", torch::optim::RMSpropOptions(0.01).momentum(0.3).centered(true)),
                                         kind<torch::optim::Adagrad>("Adagrad", torch::optim::AdagradOptions(0.01).lr_decay(0.1))),
                         [](const auto& each) { return each.param.name; });

void expect_unfit(Trained& trained, const StateTree& tree, const std::string& text) {
  try {
    check_optimizer(*trained.optimizer, trained.model, tree);
    ADD_FAILURE() << "it fits: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCheckpoint);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(OptimizerLeavesCheckTest, StateOfAnotherOptimizerOrOfOtherShapesIsNamed) {
  Trained adam(kind<torch::optim::Adam>("", torch::optim::AdamOptions(0.01))), sgd(kind<torch::optim::SGD>("", torch::optim::SGDOptions(0.01)));
  adam.step(1, true);
  expect_unfit(sgd, adam.state(), "of another optimizer (group=0, saved=Adam, this run=SGD)");
  auto tree = adam.state();
  tree.set("optimizer/a/exp_avg", torch::zeros({3}));
  expect_unfit(adam, tree, "leaf optimizer/a/exp_avg has another shape");
  tree = adam.state();
  tree.set("optimizer/c/exp_avg", torch::zeros({3}));
  expect_unfit(adam, tree, "optimizer/c/exp_avg, for which this run's optimizer has no place");
  tree = adam.state();
  tree.leaves.erase("optimizer/group1/beta2");
  expect_unfit(adam, tree, "lacks the leaf optimizer/group1/beta2");
}

TEST(OptimizerLeavesCheckTest, AnOptimizerOfAnotherKindIsRefusedWhenItIsSaved) {
  const auto parameter = torch::ones({2}).requires_grad_();
  torch::optim::LBFGS optimizer({parameter}, torch::optim::LBFGSOptions(0.1));
  StateTree tree;
  EXPECT_THROW(capture_optimizer(optimizer, {{"a", parameter}}, tree), Error);
}

}  // namespace
}  // namespace samerun::detail
