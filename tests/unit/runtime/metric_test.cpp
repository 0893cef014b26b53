// Metrics on one rank, and on one rank that replays several. On several ranks: tests/integration/runtime/collective_test.cpp.
#include "samerun/core/metric_math.h"

#include "accelerator_job.h"
#include "metric_store.h"
#include "seams.h"

namespace samerun {
namespace {

class Keeper final : public RunObserver {
 public:
  std::string name() const override { return "keeper"; }
  void on_metric(const Metric& metric) override { metrics.push_back(metric); }
  void on_sample_values(const SampleValues& values) override { samples.push_back(values); }
  std::vector<Metric> metrics;
  std::vector<SampleValues> samples;
};

/// A data set whose sample k is the number k * k, and a loader over it.
class MetricTest : public AcceleratorTest {
 protected:
  void open(std::int64_t count, const LoaderOptions& options) {
    auto settings = resolve_options(0, nullptr);
    settings.observers = std::make_shared<ObserverList>();
    settings.observers->add(keeper);
    accelerator = std::make_unique<Accelerator>(settings);
    const auto ids = torch::arange(count, at::kDouble);
    loader = std::make_unique<Loader>(accelerator->prepare_loader(tensor_dataset("squares", ids * ids, torch::Tensor()), options));
  }
  void give(const std::string& name, const MetricRule& rule, const std::function<torch::Tensor(const Batch&)>& rows) {
    for (auto& batch : *loader) accelerator->metric(name, rows(batch), rule);
  }

  std::shared_ptr<Keeper> keeper = std::make_shared<Keeper>();
  std::unique_ptr<Accelerator> accelerator;
  std::unique_ptr<Loader> loader;
};

const LoaderOptions kEvaluation{.batch_size = 3, .training = false};

torch::Tensor data_of(const Batch& batch) {
  return batch.data;
}

TEST_F(MetricTest, EveryRuleIsOverAllSamplesOfThePass) {
  open(4, kEvaluation);  // 0 1 4 9
  give("total", MetricRule::sum(), data_of);
  EXPECT_EQ(accelerator->metric_value("total"), 14);
  give("average", MetricRule::mean(), data_of);
  EXPECT_EQ(accelerator->metric_value("average"), 3.5);
  give("weighted", MetricRule::weighted_mean(), [](const Batch& batch) { return torch::stack({batch.data, batch.data + 1}, 1); });
  EXPECT_EQ(accelerator->metric_value("weighted"), (1 * 2 + 4 * 5 + 9 * 10) / 18.0);
  // Predicted: odd; true: at least 4. Class 0: sample 0 right, sample 4 is a false hit, sample 1 a miss.
  give("f1", MetricRule::f1_macro(), [](const Batch& batch) { return torch::stack({batch.data.remainder(2), batch.data.ge(4)}, 1); });
  EXPECT_EQ(accelerator->metric_value("f1"), (2.0 / 4 + 2.0 / 4) / 2);
  const auto median = MetricRule::from_samples([](const at::Tensor& rows) { return rows.median().item<double>(); });
  give("median", median, data_of);
  EXPECT_EQ(accelerator->metric_value("median"), 1);
}

TEST_F(MetricTest, PaddingIsLeftOut) {
  open(4, {.batch_size = 3, .training = false, .uneven = Uneven::kDuplicate});
  give("total", MetricRule::sum(), data_of);
  EXPECT_EQ(accelerator->metric_value("total"), 14);
  EXPECT_EQ(keeper->samples.at(0).ids.size(), 4U);
}

TEST_F(MetricTest, TheRecordHasTheRowsAndWhatTheValueWasMadeOf) {
  open(4, {.batch_size = 3, .training = false, .purpose = "held-out"});
  for (int pass = 0; pass < 2; ++pass) {
    give("weighted", MetricRule::weighted_mean(), [](const Batch& batch) { return torch::stack({batch.data, batch.data + 1}, 1); });
    accelerator->metric_value("weighted");
  }
  ASSERT_EQ(keeper->metrics.size(), 2U);
  ASSERT_EQ(keeper->samples.size(), 2U);
  const auto& metric = keeper->metrics[1];
  EXPECT_EQ(metric.name, "weighted");
  EXPECT_EQ(metric.rule, "weighted-mean");
  EXPECT_EQ(metric.purpose, "held-out");
  EXPECT_EQ(metric.pass, 1);
  EXPECT_EQ(metric.numerator, 112);
  EXPECT_EQ(metric.denominator, 18);
  EXPECT_EQ(metric.value, 112 / 18.0);
  EXPECT_EQ(metric.rows, 4);
  const auto& samples = keeper->samples[1];
  EXPECT_EQ(samples.pass, 1);
  EXPECT_EQ(samples.purpose, "held-out");
  EXPECT_EQ(samples.columns, 2);
  EXPECT_EQ(samples.ids, (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(samples.values, (std::vector<double>{0, 1, 1, 2, 4, 5, 9, 10}));
}

TEST_F(MetricTest, ShufflingChangesNoBit) {
  const auto rows = [](const Batch& batch) { return (batch.data + 1).sqrt() * 1e-3 + batch.data.eq(9).mul(1e16); };
  std::vector<double> values;
  for (const bool shuffle : {false, true}) {
    open(50, {.batch_size = 7, .shuffle = shuffle, .training = false, .data_seed = 3});
    give("mean", MetricRule::mean(), rows);
    values.push_back(accelerator->metric_value("mean"));
    accelerator.reset();
  }
  EXPECT_EQ(values[0], values[1]);
}

TEST_F(MetricTest, AReplayOfSeveralRanksGivesTheSameBits) {
  const auto rows = [](const Batch& batch) { return (batch.data + 1).sqrt(); };
  std::vector<double> values;
  for (const char* ranks : {"1", "2", "3"}) {
    ::setenv("SAMERUN_REPLAY_WORLD", ranks, 1);
    open(11, {.batch_size = 2, .training = false});
    give("mean", MetricRule::mean(), rows);
    values.push_back(accelerator->metric_value("mean"));
    EXPECT_EQ(keeper->metrics.back().rows, 11);
    loader.reset();
    accelerator.reset();
  }
  EXPECT_EQ(values, std::vector<double>(3, values[0]));
}

TEST_F(MetricTest, NanPassesThrough) {
  open(4, kEvaluation);
  give("loss", MetricRule::mean(), [](const Batch& batch) { return batch.data.log(); });
  EXPECT_TRUE(std::isinf(accelerator->metric_value("loss")));
  give("loss", MetricRule::mean(), [](const Batch& batch) { return (batch.data - 1).sqrt(); });
  EXPECT_TRUE(std::isnan(accelerator->metric_value("loss")));
}

TEST_F(MetricTest, AValueAlreadyReducedIsRefused) {
  open(4, kEvaluation);
  for (auto& batch : *loader) {
    EXPECT_REFUSED(accelerator->metric("accuracy", batch.data.mean(), MetricRule::mean()), "already reduced over the batch");
    EXPECT_REFUSED(accelerator->metric("accuracy", batch.data.mean().unsqueeze(0).expand({2}), MetricRule::mean()), "already reduced over the batch");
  }
  EXPECT_REFUSED(accelerator->metric_value("accuracy"), "was given nothing");
}

// Each probability was taken for a class of its own.
TEST_F(MetricTest, AnF1OfProbabilitiesIsRefused) {
  open(4, kEvaluation);
  for (auto& batch : *loader) {
    const auto label = torch::ones({batch.data.size(0)});
    EXPECT_REFUSED(accelerator->metric("quality", torch::stack({label * 0.7, label}, 1), MetricRule::f1_macro()), "not probabilities");
    accelerator->metric("quality", torch::stack({label, label}, 1), MetricRule::f1_macro());
  }
  EXPECT_EQ(accelerator->metric_value("quality"), 1);
}

TEST_F(MetricTest, AnAverageOfWhatIsNoAverageIsRefusedByItsName) {
  open(4, kEvaluation);
  for (auto& batch : *loader) {
    const auto two = torch::stack({batch.data, batch.data}, 1);
    for (const char* name : {"f1", "val_f1", "ROC-AUC", "perplexity"}) {
      EXPECT_REFUSED(accelerator->metric(name, batch.data, MetricRule::mean()), "is no average");
      EXPECT_REFUSED(accelerator->metric(name, batch.data, MetricRule::sum()), "from_samples()");
      EXPECT_REFUSED(accelerator->metric(name, two, MetricRule::weighted_mean()), "f1_macro()");
    }
    accelerator->metric("f1", two, MetricRule::f1_macro());
    accelerator->metric("perplexity", batch.data, MetricRule::from_samples([](const at::Tensor& rows) { return rows.mean().exp().item<double>(); }));
  }
  EXPECT_EQ(accelerator->metric_value("f1"), 1);
}

TEST_F(MetricTest, ARuleThatChangesIsRefusedUntilTheValueWasAskedFor) {
  open(4, kEvaluation);
  const auto any = MetricRule::from_samples([](const at::Tensor& rows) { return static_cast<double>(rows.size(1)); });
  give("m", MetricRule::mean(), data_of);
  for (auto& batch : *loader) EXPECT_REFUSED(accelerator->metric("m", batch.data, MetricRule::sum()), "one rule");
  accelerator->metric_value("m");
  give("m", any, data_of);
  for (auto& batch : *loader) EXPECT_REFUSED(accelerator->metric("m", torch::stack({batch.data, batch.data}, 1), any), "one number of columns");
  EXPECT_EQ(accelerator->metric_value("m"), 1);
}

TEST_F(MetricTest, ColumnsThatAreNotTheRulesAreRefused) {
  open(4, kEvaluation);
  for (auto& batch : *loader) {
    const auto two = torch::stack({batch.data, batch.data}, 1);
    EXPECT_REFUSED(accelerator->metric("m", two, MetricRule::mean()), "other columns");
    EXPECT_REFUSED(accelerator->metric("m", batch.data, MetricRule::weighted_mean()), "other columns");
    EXPECT_REFUSED(accelerator->metric("m", two.unsqueeze(2), MetricRule::f1_macro()), "[rows, columns]");
  }
}

TEST_F(MetricTest, ABatchGivenTwiceIsRefusedByASample) {
  open(4, kEvaluation);
  give("m", MetricRule::mean(), [this](const Batch& batch) {
    accelerator->metric("m", batch.data, MetricRule::mean());
    return batch.data;
  });
  EXPECT_REFUSED(accelerator->metric_value("m"), "call metric() once for each batch");
}

TEST_F(MetricTest, TwoPassesInOneValueAreRefused) {
  open(4, kEvaluation);
  give("m", MetricRule::mean(), data_of);
  for (auto& batch : *loader) EXPECT_REFUSED(accelerator->metric("m", batch.data, MetricRule::mean()), "after each pass");
  EXPECT_EQ(accelerator->metric_value("m"), 3.5);
}

TEST_F(MetricTest, OutsideALoopAndWithoutRowsItIsRefused) {
  open(4, kEvaluation);
  EXPECT_REFUSED(accelerator->metric("m", torch::zeros({3}), MetricRule::mean()), "inside `for (auto& batch : loader)`");
  EXPECT_REFUSED(accelerator->metric_value("m"), "call metric() for each batch first");
}

TEST_F(MetricTest, RowsOfATrainingLoaderCountToo) {
  Job job(10, 4, 1);
  double sum = 0;
  for (auto& batch : job.loader) {
    const auto losses = (job.net->forward(batch.data) - batch.target).pow(2).sum(1).detach();
    sum += losses.sum().item<double>();
    job.accelerator.metric("train_loss", losses, MetricRule::mean());
    job.train(batch);
  }
  EXPECT_NEAR(job.accelerator.metric_value("train_loss"), sum / 10, 1e-14);
}

TEST_F(MetricTest, AFaultMayReplaceTheRowsOrTheValue) {
  detail::seam_decorator = [](detail::Seams& seams) {
    seams.metric = [](std::vector<detail::MetricRows>& by_rank, const detail::MetricContext& context) -> std::optional<double> {
      EXPECT_EQ(context.columns, 1);
      if (context.rule == "sum") return 77;
      by_rank[0].values[0] = 100;
      return std::nullopt;
    };
  };
  open(4, kEvaluation);
  detail::seam_decorator = nullptr;
  give("total", MetricRule::sum(), data_of);
  EXPECT_EQ(accelerator->metric_value("total"), 77);
  give("mean", MetricRule::mean(), data_of);
  EXPECT_EQ(accelerator->metric_value("mean"), 28.5);
}

}  // namespace
}  // namespace samerun
