// The public classes on one rank. A process has one Accelerator at a time; in these cases one follows another.
#include "accelerator_job.h"

namespace samerun {
namespace {

TEST_F(AcceleratorTest, EachWindowsGradientIsThatOfItsRowsAsOneBatch) {
  // The last batch is short and the last window partial.
  Job job(22, 4, 4);
  int windows = 0;
  std::vector<std::int64_t> ids;
  for (auto& batch : job.loader) {
    auto window = job.accelerator.accumulate(job.net);
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.begin() + batch.size);
    job.accelerator.backward(job.loss(batch), static_cast<double>(batch.size));
    if (window.sync_gradients()) {
      EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding) << "window " << windows;
      EXPECT_EQ(ids.size(), windows == 0 ? 16U : 6U);
      ids.clear();
      ++windows;
    }
    job.opt().step();
    job.opt().zero_grad();
  }
  EXPECT_EQ(windows, 2);
  EXPECT_EQ(job.loader.steps(), 2);
  EXPECT_EQ(job.loader.batches(), 6);
}

TEST_F(AcceleratorTest, WithoutAWeightTheBatchsRealRowsAreIt) {
  Job job(11, 4, 3);
  std::vector<std::int64_t> ids;
  for (auto& batch : job.loader) {
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    job.accelerator.backward(job.loss(batch));
    if (ids.size() == static_cast<std::size_t>(job.rows.data.size(0))) {
      EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding);
    }
    job.opt().step();
  }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(job.rows.data.size(0)));
}

TEST_F(AcceleratorTest, AWeightPerLossGivesTheWeightedMean) {
  Job job(12, 4, 3);
  const std::vector<double> weights{3, 0.5, 7};
  std::vector<torch::Tensor> expected;
  std::size_t k = 0;
  for (auto& batch : job.loader) {
    const auto own = whole_gradient(job.net, job.rows, batch.ids);
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (k == 0) expected.push_back(torch::zeros_like(own[i]));
      expected[i] += own[i] * (weights[k] / 10.5);
    }
    job.accelerator.backward(job.loss(batch), weights[k++]);
    if (k == 3) {
      EXPECT_LT(distance(gradients(job.net), expected), kRounding);
    }
    job.opt().step();
  }
  EXPECT_EQ(k, 3U);
}

TEST_F(AcceleratorTest, AReplayOfSeveralRanksGivesTheGradientOfTheirRows) {
  ::setenv("SAMERUN_REPLAY_WORLD", "3", 1);
  for (const Uneven uneven : {Uneven::kFiller, Uneven::kRagged}) {
    Job job(22, 4, 2, 0, uneven);
    std::vector<std::int64_t> ids;
    int fillers = 0, windows = 0;
    for (auto& batch : job.loader) {
      auto window = job.accelerator.accumulate();
      ids.insert(ids.end(), batch.ids.begin(), batch.ids.begin() + batch.size);
      fillers += batch.filler ? 1 : 0;
      job.accelerator.backward(job.loss(batch), static_cast<double>(batch.size));
      if (!window.sync_gradients()) continue;
      EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding);
      job.opt().step();
      job.opt().zero_grad();
      ++windows;
    }
    EXPECT_EQ(ids.size(), 22U);
    EXPECT_EQ(windows, 1);
    EXPECT_EQ(fillers, 0);
  }
  Job job(10, 4, 2);  // three batches and a round of fillers' ranks
  int fillers = 0, batches = 0;
  for (auto& batch : job.loader) {
    fillers += batch.filler ? 1 : 0;
    batches += 1;
    job.train(batch);
  }
  EXPECT_EQ(batches, 3);
  EXPECT_EQ(fillers, 0);
}

TEST_F(AcceleratorTest, AFillerCountsForNothingWhateverWeightTheProgramGives) {
  ::setenv("SAMERUN_REPLAY_WORLD", "4", 1);
  Job job(9, 3, 1);
  std::vector<std::int64_t> ids;
  bool filler = false;
  for (auto& batch : job.loader) {
    filler = filler || batch.filler;
    if (!batch.filler) ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    job.accelerator.backward(job.loss(batch), 3);  // a weight counted from the rows, as a token-weighted loss has
    if (batch.filler) {
      EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding);
    }
    job.opt().step();
  }
  EXPECT_TRUE(filler);
}

TEST_F(AcceleratorTest, LeavingALoaderInsideAWindowLeavesNothingForTheNextEpoch) {
  Job job(24, 4, 3);
  for (auto& batch : job.loader) {
    job.train(batch);
    if (batch.ids.at(0) >= 0) break;  // the first of three micro-batches
  }
  std::vector<std::int64_t> ids;
  for (auto& batch : job.loader) {
    auto window = job.accelerator.accumulate();
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    job.accelerator.backward(job.loss(batch));
    if (window.sync_gradients()) break;
  }
  EXPECT_EQ(ids.size(), 12U);
  EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding);
}

TEST_F(AcceleratorTest, LeavingALoaderBetweenBackwardAndStepIsNoErrorInTheNextEpoch) {
  Job job(24, 4, 1);
  for (auto& batch : job.loader) {
    job.accelerator.backward(job.loss(batch));
    break;
  }
  std::int64_t batches = 0;
  for (auto& batch : job.loader) {
    job.train(batch);
    ++batches;
  }
  EXPECT_EQ(batches, 6);
}

TEST_F(AcceleratorTest, ZeroGradAtTheTopOfTheLoopKeepsTheWindowsGradients) {
  Job job(12, 4, 3);
  std::vector<std::int64_t> ids;
  for (auto& batch : job.loader) {
    job.opt().zero_grad();
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    job.accelerator.backward(job.loss(batch));
    if (ids.size() == static_cast<std::size_t>(job.rows.data.size(0))) {
      EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding);
    }
    job.opt().step();
  }
  EXPECT_EQ(ids.size(), static_cast<std::size_t>(job.rows.data.size(0)));
}

TEST_F(AcceleratorTest, AWindowStartsFromNoGradientsEvenWithoutZeroGrad) {
  Job job(16, 4, 2);
  std::vector<std::int64_t> ids;
  for (auto& batch : job.loader) {
    auto window = job.accelerator.accumulate();
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    job.accelerator.backward(job.loss(batch));
    if (!window.sync_gradients()) continue;
    EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding);
    ids.clear();
    job.opt().step();
  }
}

TEST_F(AcceleratorTest, AnEvaluationInsideAWindowLeavesTheWindowAsItWas) {
  for (const bool leave_early : {false, true}) {
    Job job(12, 4, 3);
    auto evaluation = job.accelerator.prepare_loader(job.rows.dataset(), {.batch_size = 5, .training = false});
    std::vector<std::int64_t> ids;
    for (auto& batch : job.loader) {
      auto window = job.accelerator.accumulate();
      ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
      const auto loss = job.loss(batch);
      std::int64_t rows = 0;
      for (auto& other : evaluation) {
        rows += job.accelerator.gather_for_metrics(other.target).size(0);
        if (leave_early) break;
      }
      EXPECT_EQ(rows, leave_early ? 5 : 12);
      job.accelerator.backward(loss);
      if (window.sync_gradients()) {
        EXPECT_LT(distance(gradients(job.net), whole_gradient(job.net, job.rows, ids)), kRounding) << "left early: " << leave_early;
      }
      job.opt().step();
      job.sched().step();
      job.opt().zero_grad();
    }
    EXPECT_EQ(job.schedule.position(), 1);
  }
}

TEST_F(AcceleratorTest, StepAndScheduleActOnceAWindow) {
  Job job(24, 4, 3, 0.1);
  const auto before = job.net->second->weight.detach().clone();
  int batches = 0;
  for (auto& batch : job.loader) {
    job.accelerator.backward(job.loss(batch));
    job.opt().step();
    job.sched().step();
    job.opt().zero_grad();
    ++batches;
    EXPECT_EQ(job.schedule.position(), batches / 3);
    EXPECT_EQ(job.net->second->weight.equal(before), batches < 3);
  }
  EXPECT_EQ(job.optimizer.param_groups()[0].options().get_lr(), 0.1 / 3);
}

TEST_F(AcceleratorTest, ClippingScalesToTheLimitAndReturnsTheNormBefore) {
  for (const double limit : {0.01, 1e6}) {
    Job job(8, 8, 1);
    for (auto& batch : job.loader) {
      job.accelerator.backward(job.loss(batch));
      const auto before = gradients(job.net);
      double square = 0;
      for (const auto& gradient : before) square += gradient.pow(2).sum().item<double>();
      EXPECT_NEAR(job.accelerator.clip_grad_norm(job.net->parameters(), limit), std::sqrt(square), 1e-12);
      auto expected = before;
      for (auto& gradient : expected) gradient *= std::min(1.0, limit / (std::sqrt(square) + 1e-6));
      EXPECT_LT(distance(gradients(job.net), expected), kRounding);
      job.opt().step();
    }
  }
}

TEST_F(AcceleratorTest, TheOrderIsThatOfTheEpochAndNotOfWorkersOrOtherRandomNumbers) {
  std::vector<std::vector<std::int64_t>> seen;
  for (const int workers : {0, 1, 3}) {
    Job job(22, 4, 1);
    auto loader = job.accelerator.prepare_loader(job.rows.dataset(), {.batch_size = 4, .shuffle = true, .data_seed = 3, .workers = workers});
    for (auto epoch : job.accelerator.epochs(2)) {
      std::vector<std::int64_t> ids;
      for (auto& batch : loader) {
        EXPECT_TRUE(batch.data.equal(job.rows.data.index_select(0, torch::tensor(batch.ids))));
        ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
        torch::rand({1 + workers});
      }
      if (workers == 0) {
        seen.push_back(ids);
      } else {
        EXPECT_EQ(ids, seen.at(static_cast<std::size_t>(epoch)));
      }
    }
  }
  EXPECT_NE(seen.at(0), seen.at(1));
}

TEST_F(AcceleratorTest, ADatasetThatThrowsInAWorkerReachesTheLoopAtItsBatch) {
  struct Broken final : Dataset {
    std::string name() const override { return "broken"; }
    std::int64_t size() const override { return 20; }
    Batch get(const std::vector<std::int64_t>& ids, const std::vector<std::uint64_t>&) const override {
      if (ids.at(0) == 8) throw std::runtime_error("row 8 cannot be read");
      return {.data = torch::zeros({static_cast<std::int64_t>(ids.size())})};
    }
  };
  for (const int workers : {0, 2}) {
    Accelerator accelerator(options_for(1));
    auto loader = accelerator.prepare_loader(std::make_shared<Broken>(), {.batch_size = 4, .workers = workers});
    std::int64_t batches = 0;
    try {
      for ([[maybe_unused]] auto& batch : loader) ++batches;
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "row 8 cannot be read");
    }
    EXPECT_EQ(batches, 2);
  }
}

TEST_F(AcceleratorTest, TheSameBatchDrawsTheSameDropoutInBothPrecisionsAndInAReplay) {
  const auto masks = [](const char* precision) {
    ::setenv("SAMERUN_PRECISION", precision, 1);
    Job job(24, 4, 2);
    std::vector<torch::Tensor> result;
    for (auto& batch : job.loader) {
      EXPECT_EQ(batch.data.scalar_type(), at::kDouble);
      result.push_back(torch::dropout(torch::ones({50}, std::string(precision) == "native" ? at::kFloat : at::kDouble), 0.5, true) != 0);
      job.train(batch);
    }
    return result;
  };
  const auto native = masks("native"), wide = masks("float64");
  ::setenv("SAMERUN_PRECISION", "native", 1);
  ASSERT_EQ(native.size(), wide.size());
  for (std::size_t i = 0; i < native.size(); ++i) {
    EXPECT_TRUE(native[i].equal(wide[i])) << i;
    if (i > 0) {
      EXPECT_FALSE(native[i].equal(native[i - 1]));
    }
  }
}

TEST_F(AcceleratorTest, AFloat64ShadowWidensFloatsAndLeavesIntegers) {
  ::setenv("SAMERUN_PRECISION", "float64", 1);
  Accelerator accelerator(options_for(1));
  auto loader = accelerator.prepare_loader(tensor_dataset("rows", torch::ones({4, 3}), torch::zeros({4}, at::kLong)), {.batch_size = 2});
  torch::nn::Sequential model(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
  torch::optim::AdamW optimizer(model->parameters(), 0.1);
  auto [net, opt] = accelerator.prepare(model, optimizer);
  for (auto& batch : loader) {
    EXPECT_EQ(batch.data.scalar_type(), at::kDouble);
    EXPECT_EQ(batch.target.scalar_type(), at::kLong);
    accelerator.backward(torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target));
    opt.step();
  }
  for (const auto& parameter : net->parameters()) EXPECT_EQ(parameter.scalar_type(), at::kDouble);
  for (const auto& item : net->named_buffers())
    EXPECT_EQ(item.value().scalar_type(), item.key() == "1.num_batches_tracked" ? at::kLong : at::kDouble) << item.key();
}

TEST_F(AcceleratorTest, AStopAfterStepsEndsTheLoopsThere) {
  ::setenv("SAMERUN_STOP_AFTER_STEPS", "4", 1);
  Job job(24, 4, 2);  // three steps an epoch
  int steps = 0, epochs = 0;
  for ([[maybe_unused]] auto epoch : job.accelerator.epochs(5)) {
    for (auto& batch : job.loader) {
      auto window = job.accelerator.accumulate();
      job.train(batch);
      steps += window.sync_gradients() ? 1 : 0;
    }
    ++epochs;
  }
  EXPECT_EQ(steps, 4);
  EXPECT_EQ(epochs, 2);
}

TEST_F(AcceleratorTest, OneRanksCollectivesAreTheIdentity) {
  Accelerator accelerator(options_for(1));
  auto values = torch::arange(4, at::kFloat);
  EXPECT_TRUE(accelerator.gather(values).equal(values));
  EXPECT_TRUE(accelerator.gather(torch::tensor(2.0)).equal(torch::tensor({2.0})));
  for (const auto op : {ReduceOp::kSum, ReduceOp::kMean, ReduceOp::kMin, ReduceOp::kMax}) EXPECT_TRUE(accelerator.reduce(values, op).equal(values));
  accelerator.broadcast(values);
  EXPECT_TRUE(values.equal(torch::arange(4, at::kFloat)));
  EXPECT_REFUSED(accelerator.broadcast(values, 1), "does not exist");
  accelerator.wait_for_everyone();
}

}  // namespace
}  // namespace samerun
