// What a wrong loop is told.
#include "accelerator_job.h"

namespace samerun {
namespace {

TEST_F(AcceleratorTest, MisuseIsRefusedWithWhatToWriteInstead) {
  Job job(24, 4, 2);
  EXPECT_REFUSED(job.accelerator.accumulate(), "inside `for (auto& batch : loader)`");
  EXPECT_REFUSED(job.accelerator.backward(torch::ones({1})), "inside `for (auto& batch : loader)`");
  EXPECT_REFUSED(job.opt().step(), "inside the training loop");
  EXPECT_REFUSED(job.accelerator.gather_for_metrics(torch::ones({1})), "inside `for (auto& batch : loader)`");
  EXPECT_REFUSED(job.accelerator.prepare(job.net, job.optimizer), "one model with one optimizer");
  EXPECT_REFUSED(Accelerator(options_for(1)), "keep the first and pass it on");
  EXPECT_REFUSED(job.accelerator.prepare_loader(nullptr, {}), "no dataset");
  EXPECT_REFUSED(job.accelerator.prepare_loader(job.rows.dataset(), {.workers = -1}), "workers");
  int batches = 0;
  for (auto& batch : job.loader) {
    const bool last = ++batches % 2 == 0;
    EXPECT_REFUSED(job.opt().step(), "accelerator.backward(");
    auto window = job.accelerator.accumulate();
    EXPECT_REFUSED(job.accelerator.accumulate(), "call it once per batch");
    EXPECT_REFUSED(job.accelerator.backward((job.net->forward(batch.data) - batch.target)), "mean over the batch");
    EXPECT_REFUSED(job.accelerator.backward(torch::Tensor()), "scalar loss");
    EXPECT_REFUSED(job.accelerator.backward(job.loss(batch).detach()), "does not depend on");
    EXPECT_REFUSED(job.accelerator.backward(job.loss(batch), -1), "at least 0");
    EXPECT_REFUSED(job.accelerator.backward(job.loss(batch), INFINITY), "finite");
    EXPECT_REFUSED(job.accelerator.clip_grad_norm(1), last ? "after backward()" : "window.sync_gradients()");
    EXPECT_REFUSED(job.accelerator.gather_for_metrics(job.loss(batch)), "reduce after gathering");
    job.accelerator.backward(job.loss(batch));
    EXPECT_REFUSED(job.accelerator.backward(job.loss(batch)), "add the losses and call it once");
    if (last) EXPECT_REFUSED(job.accelerator.clip_grad_norm(0), "above 0");
    job.opt().step();
    if (last) EXPECT_REFUSED(job.opt().step(), "twice in one window");
    job.opt().zero_grad();
    if (batches == 4) break;
  }
}

TEST_F(AcceleratorTest, AStepOfTheOptimizerItselfIsRefusedWithTheHandleNamed) {
  Job job(24, 4, 1, 0.1);
  const std::string text = refusal([&] {
    for (auto& batch : job.loader) {
      job.accelerator.backward(job.loss(batch));
      job.optimizer.step();
      job.opt().step();
    }
  });
  EXPECT_NE(text.find("'first.weight' changed outside the optimizer handle: call step() on the handle"), std::string::npos) << text;
}

TEST_F(AcceleratorTest, AWindowWithoutAStepIsRefusedAtTheNextBatch) {
  Job job(24, 4, 1);
  EXPECT_REFUSED(for (auto& batch : job.loader) job.accelerator.backward(job.loss(batch)), "call opt.step() for every batch");
}

TEST_F(AcceleratorTest, TheLastWindowWithoutAStepIsRefusedAtTheEpochsEnd) {
  Job job(4, 4, 1);
  EXPECT_REFUSED(for (auto& batch : job.loader) job.accelerator.backward(job.loss(batch)), "call opt.step() for every batch");
}

TEST_F(AcceleratorTest, ABatchLeftWithoutBackwardInsideAWindowIsRefused) {
  Job job(24, 4, 3);
  const auto skip_one = [&](std::size_t skipped, bool entered) {
    std::size_t index = 0;
    for (auto& batch : job.loader) {
      if (entered) job.accelerator.accumulate();
      if (index++ == skipped) continue;
      job.train(batch);
    }
  };
  EXPECT_REFUSED(skip_one(0, true), "left a batch without backward()");
  EXPECT_REFUSED(skip_one(1, false), "left a batch without backward()");
  EXPECT_REFUSED(skip_one(2, false), "left a batch without backward()");
}

TEST_F(AcceleratorTest, AWindowWhoseWeightsAreAllZeroIsRefused) {
  Job job(24, 4, 1);
  EXPECT_REFUSED(for (auto& batch : job.loader) job.accelerator.backward(job.loss(batch), 0), "nothing to divide by");
}

}  // namespace
}  // namespace samerun
