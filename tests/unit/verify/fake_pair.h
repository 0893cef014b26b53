#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "samerun/core/event.h"
#include "samerun/recorder/reader.h"
#include "samerun/verify/verify.h"

namespace samerun::verify {

/// What one rank of a run tells its observer. Tests change these rows and see what the verdict makes of it.
struct FakeRank {
  std::vector<SettingValue> settings;
  std::vector<DatasetSeen> datasets;
  std::vector<Shard> shards;
  std::vector<Step> steps;
  std::vector<GroupStep> groups;
  std::vector<TensorTrace> tensors;
  std::vector<LockedRow> locked;  ///< `of_run` is filled in when the pair is written.
  std::vector<SampleValues> sample_values;
  std::vector<Metric> metrics;  ///< On rank 0.
  std::vector<RunEvent> events;
  std::vector<CheckpointCommitted> checkpoints;
  std::vector<StateLeaf> leaves;
};

struct FakeRun {
  std::string role;
  std::vector<std::string> argv{"/bin/true", "--epochs", "2"};
  std::string status = "finished";
  bool says_bye = true;  ///< False leaves the record incomplete, as a killed rank does.
  std::vector<FakeRank> ranks;

  FakeRank& rank(int number) { return ranks.at(static_cast<std::size_t>(number)); }
  /// Calls `change` for the step row `number` of each rank.
  void each_step(std::int64_t number, const std::function<void(Step&, int rank)>& change);
  /// Calls `change` for the tensor rows of a stage and step; `tensor` empty: of all tensors.
  void each_tensor(const std::string& stage, std::int64_t step, const std::string& tensor, const std::function<void(TensorTrace&, int rank)>& change);
  /// Calls `change` for the rows of a metric's samples in an evaluation pass.
  void each_rows(const std::string& metric, std::int64_t pass, const std::function<void(SampleValues&, int rank)>& change);
  /// Calls `change` for the values of a metric.
  void each_value(const std::string& metric, const std::function<void(Metric&)>& change);
  void set(const std::string& key, const std::string& value);  ///< On each rank.
};

/// A clean pair: 3 ranks, 2 rounds a window, 2 epochs of 50 samples in batches of 4, so that each epoch ends in a short
/// batch, two fillers and a short window: 3 steps an epoch. Clipping is active at even steps. The tensors have 300, 6
/// and 2 elements. A reference replays the ranks; the float64 runs differ by rounding only. Each epoch ends with an
/// evaluation of 10 samples: "accuracy" (mean of 0 and 1), "loss" (weighted mean), "f1" (f1-macro), "auc" (samples), and
/// "validation", logged.
struct FakePair {
  FakeRun candidate, reference, candidate64, reference64;
  std::vector<FakeRun> reruns;
  std::string group = "pair-1";
  std::string reference_group;  ///< Where the runs were not planned together; the candidate's then stays `group`.
  bool shadows = true;

  /// The runs of the candidate, in both precisions: a fault of the program's logic is in both.
  std::vector<FakeRun*> candidates() { return {&candidate, &candidate64}; }
};

inline constexpr int kRanks = 3;
inline constexpr std::int64_t kSteps = 6;
inline constexpr const char* kBody = "body.weight";
inline constexpr const char* kHead = "head.weight";
inline constexpr const char* kBias = "head.bias";

FakePair clean_pair();
/// The same with a reference that takes each window as one micro-batch.
FakePair clean_whole_pair();

/// Multiplies a gradient row: digest, norm and sketch.
void scale_row(TensorTrace& row, double factor);
/// Another digest, as of other bits; norm and sketch stay.
void change_bits(Digest& digest);

/// A record folder of its own for each test.
class PairTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  /// Writes the pair through the recorder and judges it.
  Report judge(const FakePair& pair, const Options& options = {});
  std::int64_t write_run(const FakeRun& run, const std::string& group, std::int64_t of_run = 0);

  std::string folder_;
};

const CheckResult* find_check(const Report& report, const std::string& name);
/// The first evidence of `check`; a row of blanks when it found nothing.
Evidence first_evidence(const Report& report, const std::string& check);
/// One line a finding, for messages of failed tests.
std::string all_evidence(const Report& report);

/// Passes when the verdict is `different`, `check` found it, and its first finding is (stage, tensor, step).
testing::AssertionResult found(const Report& report, const std::string& check, const std::string& stage, const std::string& tensor,
                               std::int64_t step);
testing::AssertionResult same(const Report& report);

}  // namespace samerun::verify
