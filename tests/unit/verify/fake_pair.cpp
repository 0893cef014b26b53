#include "fake_pair.h"

#include <algorithm>
#include <cmath>

#include "samerun/core/metric_math.h"
#include "samerun/core/plan.h"
#include "samerun/core/sketch.h"
#include "samerun/core/stream.h"

namespace samerun::verify {
namespace {

constexpr std::int64_t kTrainSize = 50, kEvaluationSize = 10, kBatch = 4, kWindow = 2, kEpochs = 2;
constexpr double kClip = 1.0, kRate = 0.05;

struct Tensor {
  const char* name;
  std::int64_t numel;
};
constexpr Tensor kTensors[] = {{kBody, 300}, {kBias, 2}, {kHead, 6}};

struct Kind {
  std::string role;
  bool float64 = false;
  int replay_world = 0;  // 0: one process a rank
  bool whole = false;
  int variation = 0;
  std::uint64_t noise = 0;  // 0: none
};

double uniform(std::uint64_t key, std::uint64_t counter) {
  return static_cast<double>(counter_random(key, counter) >> 11) * 0x1p-52 - 1;
}

template <class T>
Digest digest_of(const std::vector<T>& values) {
  return digest_bytes(values.data(), values.size() * sizeof(T));
}

PlanOptions plan_options(bool training) {
  PlanOptions options;
  options.size = training ? kTrainSize : kEvaluationSize;
  options.batch_size = kBatch;
  options.world_size = kRanks;
  options.accumulation_steps = training ? kWindow : 1;
  options.shuffle = training;
  options.data_seed = 7;
  return options;
}

Digest contents(const std::vector<std::int64_t>& ids) {
  return digest_bytes(ids.data(), ids.size() * sizeof(std::int64_t));
}

// Writes the rows of one run, rank by rank.
template <class T>
class Generator {
 public:
  explicit Generator(Kind kind) : kind_(std::move(kind)), dtype_(sizeof(T) == 8 ? "float64" : "float32") {}

  FakeRun run() {
    run_.role = kind_.role;
    run_.ranks.resize(kind_.replay_world > 0 ? 1 : kRanks);
    for (const auto& tensor : kTensors) parameters_.emplace_back(static_cast<std::size_t>(tensor.numel), T(0.5));
    settings();
    initial();
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      train(epoch);
      evaluate(epoch);
    }
    datasets();
    return std::move(run_);
  }

 private:
  void settings() {
    for (std::size_t rank = 0; rank < run_.ranks.size(); ++rank) {
      auto& rows = run_.ranks[rank].settings;
      const auto add = [&rows](const std::string& key, const std::string& value) { rows.push_back({key, value, "default"}); };
      add("world_size", std::to_string(run_.ranks.size()));
      add("replay_world", std::to_string(kind_.replay_world));
      add("reference", kind_.whole ? "whole" : "replay");
      add("variation", std::to_string(kind_.variation));
      add("precision", kind_.float64 ? "float64" : "native");
      add("seed", "1");
      add("threads", "1");
      add("accumulation_steps", std::to_string(kWindow));
      for (const std::string purpose : {"train", "evaluation"}) {
        const bool training = purpose == "train";
        add(purpose + ".dataset", purpose + "-data");
        add(purpose + ".size", std::to_string(training ? kTrainSize : kEvaluationSize));
        add(purpose + ".batch_size", std::to_string(kBatch));
        add(purpose + ".shuffle", training ? "true" : "false");
        add(purpose + ".data_seed", "7");
        add(purpose + ".uneven", "filler");
        if (training) add(purpose + ".effective_batch", std::to_string(kBatch * kRanks * kWindow));
      }
    }
  }

  void initial() {
    for (std::size_t rank = 0; rank < run_.ranks.size(); ++rank) {
      for (const auto& tensor : kTensors) {
        // taken before the parameters are widened, so that both precisions start from one record
        TensorTrace row{-1, stage::kInitial, tensor.name, static_cast<int>(rank), -1, "float32", {tensor.numel}, tensor.numel};
        row.digest = digest_text(std::string("initial ") + tensor.name);
        run_.ranks[rank].tensors.push_back(row);
      }
    }
    state_ = root();
    moments_ = digest_text("no moments");
  }

  Shard shard(const std::string& purpose, std::int64_t epoch, std::int64_t round, int rank, const BatchRef& batch, std::int64_t step) const {
    Shard row;
    row.purpose = purpose;
    row.epoch = row.pass = epoch;
    row.round = round;
    row.global_batch = batch.global_index;
    row.step = step;
    row.rank = rank;
    row.ids = batch.ids;
    row.real = batch.real;
    row.filler = batch.filler;
    row.stream_key = stream_key({1, batch.filler ? "filler" : purpose, epoch, batch.global_index});
    row.digest = contents(batch.ids);
    return row;
  }

  FakeRank& process_of(int rank) { return run_.rank(kind_.replay_world > 0 ? 0 : rank); }

  void train(std::int64_t epoch) {
    const Plan plan(plan_options(true));
    for (std::int64_t round = 0; round < plan.rounds();) {
      const WindowRange window = plan.window(round);
      if (kind_.whole) {
        whole_window(plan, epoch, window);
      } else {
        for (auto j = window.first_round; j < window.end_round; ++j) {
          for (int rank = 0; rank < kRanks; ++rank) micro_batch(plan, epoch, j, rank, j - window.first_round);
        }
      }
      step(plan, epoch, window);
      round = window.end_round;
    }
  }

  void micro_batch(const Plan& plan, std::int64_t epoch, std::int64_t round, int rank, std::int64_t index) {
    process_of(rank).shards.push_back(shard("train", epoch, round, rank, *plan.at(epoch, round, rank), number_));
    if (number_ != 0 || kind_.variation > 0) return;
    for (const auto& tensor : kTensors) {
      TensorTrace row{number_, stage::kLocal, tensor.name, rank, index, dtype_, {tensor.numel}, tensor.numel};
      row.digest = digest_text("local " + std::string(tensor.name) + std::to_string(rank) + "/" + std::to_string(index) + dtype_);
      process_of(rank).tensors.push_back(row);
    }
  }

  void whole_window(const Plan& plan, std::int64_t epoch, const WindowRange& window) {
    BatchRef all;
    all.global_index = window.first_round * kRanks;
    for (auto round = window.first_round; round < window.end_round; ++round) {
      for (int rank = 0; rank < kRanks; ++rank) {
        const auto batch = plan.at(epoch, round, rank);
        all.ids.insert(all.ids.end(), batch->ids.begin(), batch->ids.begin() + batch->real);
      }
    }
    all.real = static_cast<std::int64_t>(all.ids.size());
    process_of(0).shards.push_back(shard("train", epoch, window.first_round, 0, all, number_));
  }

  void evaluate(std::int64_t epoch) {
    const Plan plan(plan_options(false));
    for (std::int64_t round = 0; round < plan.rounds(); ++round) {
      for (int rank = 0; rank < kRanks; ++rank)
        process_of(rank).shards.push_back(shard("evaluation", epoch, round, rank, *plan.at(epoch, round, rank), -1));
    }
    metric(epoch, "accuracy", "mean");
    const double loss = metric(epoch, "loss", "weighted-mean");
    metric(epoch, "f1", "f1-macro");
    metric(epoch, "auc", "samples");
    run_.rank(0).metrics.push_back({number_, epoch, "validation", loss, "logged"});
  }

  std::vector<double> row(const std::string& name, std::int64_t id, std::int64_t epoch) const {
    const auto key = static_cast<std::uint64_t>(1 + id + 100 * epoch);
    const auto draw = static_cast<double>(counter_random(9, key) % 3);
    if (name == "accuracy") return {draw > 0 ? 1.0 : 0.0};
    if (name == "f1") return {draw, static_cast<double>(id % 3)};
    const double noise = kind_.noise == 0 ? 0 : 0x1p-53 * uniform(kind_.noise, key);
    const double value = static_cast<T>((1 + uniform(8, key) / 2) * (1 + noise));
    if (name == "loss") return {value, static_cast<double>(1 + id % 4)};
    return {value};
  }

  double metric(std::int64_t epoch, const std::string& name, const std::string& rule) {
    SampleValues all;
    for (auto& process : run_.ranks) {
      SampleValues mine{number_, epoch, "evaluation", epoch, name, rule == "weighted-mean" || rule == "f1-macro" ? 2 : 1, {}, {}};
      for (const auto& batch : process.shards) {
        if (batch.purpose != "evaluation" || batch.pass != epoch) continue;
        for (std::int64_t i = 0; i < batch.real; ++i) {
          const auto values = row(name, batch.ids[static_cast<std::size_t>(i)], epoch);
          mine.ids.push_back(batch.ids[static_cast<std::size_t>(i)]);
          mine.values.insert(mine.values.end(), values.begin(), values.end());
        }
      }
      all.columns = mine.columns;
      all.ids.insert(all.ids.end(), mine.ids.begin(), mine.ids.end());
      all.values.insert(all.values.end(), mine.values.begin(), mine.values.end());
      process.sample_values.push_back(std::move(mine));
    }
    MetricResult result;
    if (rule == "samples") {
      for (const auto i : sample_order(all.ids)) result.value += all.values[i] * all.values[i];
      result = {result.value, result.value, 1, static_cast<std::int64_t>(all.ids.size())};
    } else {
      result = metric_of(rule, all.columns, all.ids, all.values);
    }
    run_.rank(0).metrics.push_back(
        {number_, epoch, name, result.value, rule, "evaluation", epoch, result.numerator, result.denominator, result.rows});
    return result.value;
  }

  std::vector<T> gradient(std::size_t tensor) const {
    std::vector<T> values(parameters_[tensor].size());
    const double scale = number_ % 2 == 0 ? 0.2 : 0.04;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto place = static_cast<std::uint64_t>(number_) * 1000 + i;
      const double noise = kind_.noise == 0 ? 0 : 0x1p-53 * uniform(kind_.noise + tensor, place);
      values[i] = static_cast<T>(scale * uniform(tensor + 100, place) * (1 + noise));
    }
    return values;
  }

  Digest root() const {
    std::vector<Digest> digests;
    for (const auto& values : parameters_) digests.push_back(digest_of(values));
    return digest_list(digests);
  }

  void add_rows(const char* stage_name, std::size_t tensor, const std::vector<T>& values, bool sketches) {
    for (std::size_t rank = 0; rank < run_.ranks.size(); ++rank) {
      if (rank != 0 && std::string(stage_name) == stage::kUpdate) continue;
      const auto& [name, numel] = kTensors[tensor];
      TensorTrace row{number_, stage_name, name, static_cast<int>(rank), -1, dtype_, {numel}, numel};
      row.digest = digest_of(values);
      if (rank == 0) row.norm = norm2(std::span<const T>(values));
      if (rank == 0 && sketches) row.sketch = sketch(std::span<const T>(values), name, 0, numel);
      run_.ranks[rank].tensors.push_back(row);
    }
  }

  void step(const Plan& plan, std::int64_t epoch, const WindowRange& window) {
    Step row;
    row.step = number_;
    row.position.epoch = epoch;
    row.position.optimizer_step = number_ + 1;
    row.micro_batches = kind_.whole ? 1 : kRanks * (window.end_round - window.first_round);
    row.samples_counted = row.samples_set = plan.samples_in_window(window.first_round);
    row.loss_numerator = 2.3 * static_cast<double>(row.samples_counted);
    row.loss_denominator = static_cast<double>(row.samples_counted);
    std::vector<std::vector<T>> raw;
    double squares = 0;
    for (std::size_t i = 0; i < std::size(kTensors); ++i) {
      raw.push_back(gradient(i));
      squares += std::pow(norm2(std::span<const T>(raw.back())), 2);
    }
    row.norm_raw = std::sqrt(squares);
    row.clip_max = kClip;
    row.clip_factor = std::min(1.0, kClip / (row.norm_raw + 1e-6));
    row.root_before = state_;
    row.root_moments_before = moments_;
    tensors_of_step(row, raw);
    row.root_after = state_ = root();
    row.root_moments_after = moments_ = digest_text("moments after " + std::to_string(number_));
    for (auto& rank : run_.ranks) {
      rank.steps.push_back(row);
      rank.groups.push_back({number_, 0, kRate / static_cast<double>(1 + number_), 0.01, 0.9, 0.999, 1e-8, 0, "AdamW"});
    }
    if (number_ == 0 && kind_.replay_world > 0 && !kind_.whole && kind_.variation == 0) locked(row);
    ++number_;
  }

  void tensors_of_step(Step& row, const std::vector<std::vector<T>>& raw) {
    std::vector<Digest> raws, clips, updates;
    for (std::size_t i = 0; i < std::size(kTensors); ++i) {
      std::vector<T> clipped = raw[i], update(raw[i].size());
      for (auto& value : clipped) value = static_cast<T>(value * row.clip_factor);
      for (std::size_t j = 0; j < clipped.size(); ++j) {
        const T before = parameters_[i][j];
        parameters_[i][j] = static_cast<T>(before - kRate * clipped[j]);
        update[j] = parameters_[i][j] - before;
      }
      add_rows(stage::kRaw, i, raw[i], true);
      add_rows(stage::kClipped, i, clipped, true);
      add_rows(stage::kUpdate, i, update, false);
      add_rows(stage::kState, i, parameters_[i], false);
      raws.push_back(digest_of(raw[i]));
      clips.push_back(digest_of(clipped));
      updates.push_back(digest_of(update));
    }
    row.root_raw = digest_list(raws);
    row.root_clipped = digest_list(clips);
    row.root_update = digest_list(updates);
  }

  // Distances of a tenth of what is allowed, or so.
  void locked(const Step& step_row) {
    const double unit = sizeof(T) == 8 ? 0x1p-53 : 0x1p-24;
    const auto add = [&](const std::string& stage_name, const std::string& name, double distance, double scale, const std::string& text = {}) {
      run_.rank(0).locked.push_back(
          {0, number_, kind_.float64 ? "float64" : "float32", stage_name, name, distance, scale, 0, step_row.micro_batches, text});
    };
    add("loss", "", unit, step_row.loss_numerator);
    add("norm", "", unit, step_row.norm_raw);
    for (const auto& tensor : kTensors) {
      add("reduced", tensor.name, unit, 1.5);
      add("clip", tensor.name, unit, 1, "coef(n)");
      add("update", tensor.name, unit, 10);
      add("moment1", tensor.name, unit, 1);
      add("moment2", tensor.name, unit * 1e-3, 1e-2);
    }
  }

  void datasets() {
    for (const std::string purpose : {"train", "evaluation"}) {
      for (auto& rank : run_.ranks) {
        DatasetSeen seen{purpose, purpose == "train" ? kTrainSize : kEvaluationSize, 0, {}};
        for (const auto& row : rank.shards) {
          if (row.purpose != purpose || row.pass != 0) continue;
          for (std::int64_t i = 0; i < row.real; ++i) seen.digest = samerun::add(seen.digest, contents({row.ids[static_cast<std::size_t>(i)]}));
          seen.rows += row.real;
        }
        rank.datasets.push_back(seen);
      }
    }
  }

  Kind kind_;
  std::string dtype_;
  FakeRun run_;
  std::vector<std::vector<T>> parameters_;
  Digest state_, moments_;
  std::int64_t number_ = 0;
};

FakePair make_pair(bool whole) {
  FakePair pair;
  pair.candidate = Generator<float>({"candidate"}).run();
  pair.reference = Generator<float>({"reference", false, kRanks, whole}).run();
  pair.candidate64 = Generator<double>({"candidate64", true, 0, false, 0, 11}).run();
  pair.reference64 = Generator<double>({"reference64", true, kRanks, whole}).run();
  for (int variation = 1; variation <= 4; ++variation) {
    pair.reruns.push_back(
        Generator<double>({"rerun64-" + std::to_string(variation), true, kRanks, whole, variation, 20 + static_cast<std::uint64_t>(variation)})
            .run());
  }
  return pair;
}

}  // namespace

FakePair clean_pair() {
  static const FakePair pair = make_pair(false);
  return pair;
}

FakePair clean_whole_pair() {
  return make_pair(true);
}

void FakeRun::each_step(std::int64_t number, const std::function<void(Step&, int)>& change) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (auto& row : ranks[rank].steps) {
      if (row.step == number) change(row, static_cast<int>(rank));
    }
  }
}

void FakeRun::each_tensor(const std::string& stage_name, std::int64_t step, const std::string& tensor,
                          const std::function<void(TensorTrace&, int)>& change) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (auto& row : ranks[rank].tensors) {
      if (row.stage == stage_name && row.step == step && (tensor.empty() || row.name == tensor)) change(row, static_cast<int>(rank));
    }
  }
}

void FakeRun::each_rows(const std::string& metric, std::int64_t pass, const std::function<void(SampleValues&, int)>& change) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (auto& rows : ranks[rank].sample_values) {
      if (rows.name == metric && rows.pass == pass) change(rows, static_cast<int>(rank));
    }
  }
}

void FakeRun::each_value(const std::string& metric, const std::function<void(Metric&)>& change) {
  for (auto& row : rank(0).metrics) {
    if (row.name == metric) change(row);
  }
}

void FakeRun::set(const std::string& key, const std::string& value) {
  for (auto& rank : ranks) {
    for (auto& row : rank.settings) {
      if (row.key == key) row.value = value;
    }
  }
}

void scale_row(TensorTrace& row, double factor) {
  change_bits(row.digest);
  row.norm *= factor;
  for (auto& value : row.sketch) value *= factor;
}

void change_bits(Digest& digest) {
  digest.bytes[0] ^= 1;
}

}  // namespace samerun::verify
