#include <cmath>
#include <limits>

#include "record_fixture.h"
#include "samerun/core/error.h"

namespace samerun::recorder {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class RoundTripTest : public RecordFixture {
 protected:
  /// Writes what `emit` says as the only rank of a run, ends the run, and returns its id.
  std::int64_t run_of_one(const std::function<void(RunObserver&)>& emit) {
    Store store(record());
    const std::int64_t run = store.begin_run(new_run());
    {
      StagingWriter writer(staging_options(store.staging_folder(run)));
      writer.on_rank_start(rank_start(0));
      emit(writer);
      writer.on_run_end({7, "finished", ""});
    }
    store.end_run(run, "finished", 0, "", {{0, 0, std::nullopt, "last words", false}});
    return run;
  }
};

TEST_F(RoundTripTest, RunAndRankComeBackAsWritten) {
  const std::int64_t run = run_of_one([](RunObserver&) {});
  const Reader reader(record());
  const auto row = reader.run(run);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->status, "finished");
  EXPECT_EQ(row->argv, (std::vector<std::string>{"/bin/true", "--epochs", "2"}));
  EXPECT_EQ(row->exit_code, 0);
  EXPECT_TRUE(row->complete);
  EXPECT_EQ(row->program_digest.size(), 32U);
  const auto ranks = reader.ranks(run);
  ASSERT_EQ(ranks.size(), 1U);
  EXPECT_EQ(ranks[0].status, "finished");
  EXPECT_EQ(ranks[0].steps, 7);
  EXPECT_EQ(ranks[0].build_id, "build");
  const auto exits = reader.exits(run);
  ASSERT_EQ(exits.size(), 1U);
  EXPECT_EQ(exits[0].stderr_tail, "last words");
  EXPECT_FALSE(exits[0].signal);
}

TEST_F(RoundTripTest, StepsKeepNaNAndInfinities) {
  Step step = step_number(3);
  step.loss_numerator = kNaN;
  step.norm_raw = kInfinity;
  step.clip_max = -kInfinity;
  step.clip_factor = kNaN;
  step.root_raw = digest_text("raw");
  step.root_moments_after = digest_text("moments");
  const std::int64_t run = run_of_one([&](RunObserver& observer) { observer.on_step(step); });
  const auto rows = Reader(record()).steps(run);
  ASSERT_EQ(rows.size(), 1U);
  const Step& read = rows[0].step;
  EXPECT_TRUE(std::isnan(read.loss_numerator));
  EXPECT_EQ(read.loss_denominator, 32);
  EXPECT_EQ(read.norm_raw, kInfinity);
  EXPECT_EQ(read.clip_max, -kInfinity);
  EXPECT_TRUE(std::isnan(read.clip_factor));
  EXPECT_EQ(read.position.data_seed, step.position.data_seed);
  EXPECT_EQ(read.root_raw, step.root_raw);
  EXPECT_EQ(read.root_moments_after, step.root_moments_after);
}

TEST_F(RoundTripTest, GroupsMetricsAndLockedRowsKeepNonFiniteValues) {
  const std::int64_t run = run_of_one([](RunObserver& observer) {
    observer.on_group_step({1, 2, kInfinity, 0.01, 0.9, kNaN, 1e-8, 0, "AdamW"});
    observer.on_metric({4, 1, "loss", -kInfinity, "logged"});
    observer.on_locked({9, 4, "float32", "reduced", "w", kNaN, kInfinity, 0.5, 8, "branch"});
  });
  const Reader reader(record());
  const GroupStep group = reader.group_steps(run).at(0).group;
  EXPECT_EQ(group.learning_rate, kInfinity);
  EXPECT_TRUE(std::isnan(group.beta2));
  EXPECT_EQ(group.epsilon, 1e-8);
  EXPECT_EQ(group.optimizer, "AdamW");
  EXPECT_EQ(reader.metrics(run).at(0).metric.value, -kInfinity);
  const LockedRow locked = reader.locked(run).at(0);
  EXPECT_EQ(locked.of_run, 9);
  EXPECT_TRUE(std::isnan(locked.distance));
  EXPECT_EQ(locked.scale, kInfinity);
  EXPECT_EQ(locked.common_scale, 0.5);
  EXPECT_EQ(locked.terms, 8);
  EXPECT_EQ(locked.text, "branch");
}

TEST_F(RoundTripTest, MetricsKeepWhatTheyWereMadeOf) {
  const std::int64_t run = run_of_one([](RunObserver& observer) {
    observer.on_metric({4, 1, "perplexity", 0.75, "weighted-mean", "evaluation", 2, kInfinity, kNaN, 10});
    observer.on_sample_values({4, 1, "evaluation", 2, "perplexity", 2, {9, 3, 4, 5}, {1.5, 2, kNaN, -0.0, kInfinity, 1e-310, -1, 7}});
    observer.on_sample_values({4, 1, "evaluation", 2, "accuracy", 1, {}, {}});
  });
  const Reader reader(record());
  const Metric metric = reader.metrics(run).at(0).metric;
  EXPECT_EQ(metric.purpose, "evaluation");
  EXPECT_EQ(metric.pass, 2);
  EXPECT_EQ(metric.numerator, kInfinity);
  EXPECT_TRUE(std::isnan(metric.denominator));
  EXPECT_EQ(metric.rows, 10);
  const auto rows = reader.sample_values(run);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].values.name, "accuracy");
  EXPECT_TRUE(rows[0].values.ids.empty() && rows[0].values.values.empty()) << "a rank without samples";
  const SampleValues& values = rows[1].values;
  EXPECT_EQ(values.step, 4);
  EXPECT_EQ(values.epoch, 1);
  EXPECT_EQ(values.pass, 2);
  EXPECT_EQ(values.columns, 2);
  EXPECT_EQ(values.ids, (std::vector<std::int64_t>{9, 3, 4, 5}));
  ASSERT_EQ(values.values.size(), 8U);
  EXPECT_TRUE(std::isnan(values.values[2]));
  EXPECT_TRUE(std::signbit(values.values[3]));
  EXPECT_EQ(values.values[4], kInfinity);
  EXPECT_EQ(values.values[5], 1e-310);
}

TEST_F(RoundTripTest, SampleValuesThatDoNotFitTheirIdsAreDamage) {
  const std::int64_t run = run_of_one([](RunObserver& observer) { observer.on_sample_values({4, 1, "evaluation", 2, "loss", 1, {9, 3}, {1.5}}); });
  EXPECT_THROW(Reader(record()).sample_values(run), Error);
}

TEST_F(RoundTripTest, PhasesCheckpointsAndStateLeavesComeBack) {
  CheckpointCommitted checkpoint;
  checkpoint.position = {0xffff'ffff'ffff'fff0, 1, 2, 3, 4, 5};
  checkpoint.path = "/data/step-4";
  checkpoint.bytes = 1'000;
  checkpoint.manifest_sha256 = "abc";
  const std::int64_t run = run_of_one([&](RunObserver& observer) {
    observer.on_phase({6, 1, 2, 3, 4, 5, 6, 7, 8, 36});
    observer.on_run_phase({"training", 11});
    observer.on_run_phase({"evaluation", 12});
    observer.on_checkpoint(checkpoint);
    observer.on_state_leaf({4, "saved", "model/weight", digest_text("w")});
    observer.on_state_leaf({4, "loaded", "model/weight", digest_text("w")});
  });
  const Reader reader(record());
  const Phase phase = reader.phases(run).at(0).phase;
  EXPECT_EQ(phase.step, 6);
  EXPECT_EQ((std::vector<std::int64_t>{phase.data_ns, phase.compute_ns, phase.exposed_ns, phase.optimizer_ns, phase.checkpoint_ns,
                                       phase.evaluation_ns, phase.recording_ns, phase.other_ns, phase.wall_ns}),
            (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 36}));
  const auto parts = reader.run_phases(run);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].phase.name, "training");
  EXPECT_EQ(parts[1].phase.ns, 12);
  const CheckpointCommitted read = reader.checkpoints(run).at(0).checkpoint;
  EXPECT_EQ(read.path, checkpoint.path);
  EXPECT_EQ(read.bytes, 1'000);
  EXPECT_EQ(read.manifest_sha256, "abc");
  EXPECT_EQ(read.position.data_seed, checkpoint.position.data_seed);
  EXPECT_EQ(read.position.optimizer_step, 4);
  EXPECT_EQ(read.position.samples_seen, 5);
  const auto leaves = reader.state_leaves(run);
  ASSERT_EQ(leaves.size(), 2U);
  EXPECT_EQ(leaves[0].leaf.moment, "loaded");
  EXPECT_EQ(leaves[1].leaf.path, "model/weight");
  EXPECT_EQ(leaves[1].leaf.digest, digest_text("w"));
}

TEST_F(RoundTripTest, TensorsOfOneRankAloneCanBeAskedFor) {
  Store store(record());
  const std::int64_t run = store.begin_run(new_run(2));
  for (const int rank : {0, 1}) {
    StagingWriter writer(staging_options(store.staging_folder(run), rank));
    writer.on_rank_start(rank_start(rank, 2));
    writer.on_tensor(tensor_trace(0, "weight"));
    writer.on_run_end({1, "finished", ""});
  }
  store.end_run(run, "finished", 0, "", {});
  std::vector<int> all, first;
  const Reader reader(record());
  reader.tensors(run, stage::kRaw, [&](const TensorRow& row) { all.push_back(row.rank); });
  reader.tensors(
      run, stage::kRaw, [&](const TensorRow& row) { first.push_back(row.rank); }, 1);
  EXPECT_EQ(all, (std::vector<int>{0, 1}));
  EXPECT_EQ(first, (std::vector<int>{1}));
}

TEST_F(RoundTripTest, ShardsKeepTheirRowOrderAndKey) {
  Shard shard;
  shard.purpose = "train";
  shard.epoch = 1;
  shard.pass = 2;
  shard.global_batch = 5;
  shard.rank = 3;
  shard.ids = {9, 4, 5, 6, 0};
  shard.real = 4;
  shard.stream_key = 0x8000'0000'0000'0001;
  shard.digest = digest_text("batch");
  const std::int64_t run = run_of_one([&](RunObserver& observer) { observer.on_shard(shard); });
  const ShardRow row = Reader(record()).shards(run).at(0);
  EXPECT_EQ(row.rank, 0);
  EXPECT_EQ(row.shard.rank, 3);
  EXPECT_EQ(row.shard.ids, shard.ids);
  EXPECT_EQ(row.shard.real, 4);
  EXPECT_EQ(row.shard.step, -1);
  EXPECT_EQ(row.shard.stream_key, shard.stream_key);
  EXPECT_EQ(row.shard.digest, shard.digest);
}

TEST_F(RoundTripTest, TensorsComeByStepThenNameAndOnlyOfTheirStage) {
  const std::int64_t run = run_of_one([](RunObserver& observer) {
    for (const int step : {1, 0}) {
      for (const char* name : {"weight", "bias"}) observer.on_tensor(tensor_trace(step, name));
    }
    TensorTrace other = tensor_trace(0, "bias");
    other.stage = stage::kState;
    other.shape = {};
    other.norm = kNaN;
    other.sketch = {kNaN, -kInfinity, -0.0};
    other.file = "values.safetensors";
    observer.on_tensor(other);
  });
  const Reader reader(record());
  std::vector<std::string> order;
  reader.tensors(run, stage::kRaw, [&](const TensorRow& row) {
    order.push_back(std::to_string(row.trace.step) + row.trace.name);
    EXPECT_EQ(row.trace.shape, (std::vector<std::int64_t>{3, 4}));
    EXPECT_EQ(row.trace.digest, digest_text(row.trace.name + std::to_string(row.trace.step)));
    EXPECT_EQ(row.trace.sketch, (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
    EXPECT_EQ(row.trace.abs_norm, -1);
  });
  EXPECT_EQ(order, (std::vector<std::string>{"0bias", "0weight", "1bias", "1weight"}));
  int states = 0;
  reader.tensors(run, stage::kState, [&](const TensorRow& row) {
    ++states;
    EXPECT_TRUE(row.trace.shape.empty());
    EXPECT_TRUE(std::isnan(row.trace.norm));
    ASSERT_EQ(row.trace.sketch.size(), 3U);
    EXPECT_TRUE(std::isnan(row.trace.sketch[0]));
    EXPECT_EQ(row.trace.sketch[1], -kInfinity);
    EXPECT_TRUE(std::signbit(row.trace.sketch[2]));
    EXPECT_EQ(row.trace.file, "values.safetensors");
  });
  EXPECT_EQ(states, 1);
}

TEST_F(RoundTripTest, SettingsFactsDatasetsAndEventsComeBack) {
  const std::int64_t run = run_of_one([](RunObserver& observer) {
    observer.on_setting({"seed", "1", "default"});
    observer.on_setting({"seed", "7", "argument"});
    observer.on_environment({"torch.threads", "1", "torch", ""});
    observer.on_environment({"gpu", "", "nvml", "no driver"});
    observer.on_dataset({"train", 1437, 360, digest_text("data")});
    observer.on_event({"warning", "threads", "caf\xc3\xa9 \xff", 3});
  });
  const Reader reader(record());
  const auto settings = reader.settings(run);
  ASSERT_EQ(settings.size(), 1U) << "the last value of a key stands";
  EXPECT_EQ(settings[0].setting.value, "7");
  EXPECT_EQ(settings[0].setting.origin, "argument");
  int of_rank = 0;
  for (const EnvironmentRow& row : reader.environment(run)) {
    if (row.rank < 0) continue;
    ++of_rank;
    if (row.fact.key == "gpu") {
      EXPECT_EQ(row.fact.why_null, "no driver");
    }
  }
  EXPECT_EQ(of_rank, 2);
  EXPECT_EQ(reader.datasets(run).at(0).dataset.rows, 360);
  const auto events = reader.events(run);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].event.text, "caf\xc3\xa9 \xff");
  EXPECT_EQ(events[0].event.step, 3);
  EXPECT_GT(events[0].utc_ns, 0);
}

TEST(IdsTextTest, KeepsOrderAndMergesAscendingRunsOnly) {
  const std::vector<std::int64_t> ids = {5, 9, 12, 13, 14, 15, 3, 2, 1, 7, 7};
  EXPECT_EQ(ids_to_text(ids), "5,9,12-15,3,2,1,7,7");
  EXPECT_EQ(ids_from_text("5,9,12-15,3,2,1,7,7"), ids);
  EXPECT_EQ(ids_from_text(ids_to_text({})), std::vector<std::int64_t>{});
  EXPECT_EQ(ids_from_text(ids_to_text({-3, -2, -1, 0})), (std::vector<std::int64_t>{-3, -2, -1, 0}));
}

TEST(IdsTextTest, RefusesTextThatIsDamaged) {
  for (const char* text : {"5,", ",5", "5-", "9-5", "x", "1-9223372036854775807", "1;2", "1,,2"}) {
    EXPECT_THROW(ids_from_text(text), Error) << text;
  }
}

}  // namespace
}  // namespace samerun::recorder
