#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "fake_pair.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/attach.h"
#include "samerun/recorder/store.h"

// The fixture: writes a fake pair as the runtime would, through the recorder, and judges the record.
namespace samerun::verify {
namespace {

void tell(RunObserver& observer, const FakeRun& run, int number, std::int64_t of_run) {
  RankStart start;
  start.rank = number;
  start.world_size = static_cast<int>(run.ranks.size());
  start.pid = ::getpid();
  start.build_id = "build";
  observer.on_rank_start(start);
  const FakeRank& rank = run.ranks[static_cast<std::size_t>(number)];
  for (const auto& row : rank.settings) observer.on_setting(row);
  for (const auto& row : rank.datasets) observer.on_dataset(row);
  for (const auto& row : rank.shards) observer.on_shard(row);
  for (const auto& row : rank.steps) observer.on_step(row);
  for (const auto& row : rank.groups) observer.on_group_step(row);
  for (const auto& row : rank.tensors) observer.on_tensor(row);
  for (const auto& row : rank.sample_values) observer.on_sample_values(row);
  for (const auto& row : rank.metrics) observer.on_metric(row);
  for (const auto& row : rank.events) observer.on_event(row);
  for (const auto& row : rank.checkpoints) observer.on_checkpoint(row);
  for (const auto& row : rank.leaves) observer.on_state_leaf(row);
  for (auto row : rank.locked) {
    row.of_run = of_run;
    observer.on_locked(row);
  }
  if (run.says_bye) observer.on_run_end({static_cast<std::int64_t>(rank.steps.size()), "finished", ""});
}

}  // namespace

void PairTest::SetUp() {
  // thousands of small commits: in memory where there is such a folder
  const bool memory = ::access("/dev/shm", W_OK) == 0;
  std::string name = (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/samerun-verify-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  folder_ = name;
}

void PairTest::TearDown() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::int64_t PairTest::write_run(const FakeRun& run, const std::string& group, std::int64_t of_run) {
  recorder::Store store(folder_ + "/record");
  recorder::NewRun fresh;
  fresh.group_id = group;
  fresh.role = run.role;
  fresh.world_size = static_cast<int>(run.ranks.size());
  fresh.argv = run.argv;
  fresh.cwd = "/";
  const std::int64_t id = store.begin_run(fresh);
  ::setenv(env::kStaging, store.staging_folder(id).c_str(), 1);
  ::setenv(env::kRunId, std::to_string(id).c_str(), 1);
  for (int rank = 0; rank < fresh.world_size; ++rank) {
    ::setenv(env::kRank, std::to_string(rank).c_str(), 1);
    tell(*recorder::attach_from_env(), run, rank, of_run);
  }
  ::unsetenv(env::kStaging);
  store.end_run(id, run.status, 0, "", {});
  return id;
}

Report PairTest::judge(const FakePair& pair, const Options& options) {
  const auto candidate = write_run(pair.candidate, pair.group);
  const auto reference = write_run(pair.reference, pair.reference_group.empty() ? pair.group : pair.reference_group, candidate);
  if (pair.shadows) {
    const auto candidate64 = write_run(pair.candidate64, pair.group);
    write_run(pair.reference64, pair.group, candidate64);
    for (const auto& rerun : pair.reruns) write_run(rerun, pair.group);
  }
  const recorder::Reader reader(folder_ + "/record");
  return verify(reader, candidate, reference, options);
}

const CheckResult* find_check(const Report& report, const std::string& name) {
  for (const auto& check : report.checks) {
    if (check.name == name) return &check;
  }
  return nullptr;
}

Evidence first_evidence(const Report& report, const std::string& check) {
  const CheckResult* result = find_check(report, check);
  return result == nullptr || result->evidence.empty() ? Evidence{} : result->evidence.front();
}

std::string all_evidence(const Report& report) {
  std::string text = report.summary + "\n";
  for (const auto& check : report.checks) {
    text += check.name + " " + std::string(to_string(check.word)) + ": " + check.summary + "\n";
    for (const auto& e : check.evidence) {
      text += "  " + std::string(to_string(e.word)) + " [" + e.stage + "] [" + e.tensor + "] step " + std::to_string(e.step) + " rank " +
              std::to_string(e.rank) + ": " + e.text + "\n";
    }
  }
  return text;
}

testing::AssertionResult found(const Report& report, const std::string& check, const std::string& stage, const std::string& tensor,
                               std::int64_t step) {
  const Evidence first = first_evidence(report, check);
  if (report.verdict == Verdict::kDifferent && first.word == Verdict::kDifferent && first.stage == stage && first.tensor == tensor &&
      first.step == step) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << all_evidence(report);
}

testing::AssertionResult same(const Report& report) {
  if (report.verdict == Verdict::kSame) return testing::AssertionSuccess();
  return testing::AssertionFailure() << all_evidence(report);
}

namespace {

TEST_F(PairTest, ACleanPairIsTheSameWithEveryTensorDecided) {
  const Report report = judge(clean_pair());
  EXPECT_TRUE(same(report));
  EXPECT_EQ(report.coverage_tensors, 1);
  EXPECT_EQ(report.coverage.shadow_steps, kSteps);
  EXPECT_TRUE(report.not_exercised.empty()) << report.not_exercised.front();
  EXPECT_EQ(report.summary,
            "same: the 3-rank run is the experiment of the 1-rank run (tier S at step 0, float64 free-running over 6 steps, 3 of 3 tensors)");
  for (const auto& check : report.checks) EXPECT_EQ(check.word, Verdict::kSame) << check.name;
}

TEST_F(PairTest, ACleanPairAgainstWholeBatchesIsTheSame) {
  const Report report = judge(clean_whole_pair());
  EXPECT_TRUE(same(report));
  EXPECT_NE(report.summary.find("whole batches"), std::string::npos) << report.summary;
}

TEST_F(PairTest, AStrictCleanPairIsTheSameWhereAllIsExercised) {
  EXPECT_TRUE(same(judge(clean_pair(), {.strict = true})));
}

}  // namespace
}  // namespace samerun::verify
