// Checkpoints of several ranks: a save or load that one rank cannot do is done by none, and all say the same.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "ranks.h"

namespace samerun::ranks_test {
namespace {

namespace fs = std::filesystem;

class CheckpointTest : public testing::Test {
 protected:
  Ended run(int ranks, Words words, const std::map<std::string, std::string>& env = {}) {
    bench_.env = env;
    words.insert(words.begin(), {"launch", "-n", std::to_string(ranks), "--no-record", "--prefix", "--", kCheckpointFixturePath, "checkpoints"});
    return bench_.run(words);
  }
  void save(int ranks) {
    const Ended ended = run(ranks, {"save-epochs", "epochs=1"});
    ASSERT_EQ(ended.code, 0) << ended.err;
    ASSERT_EQ(names().size(), 1U);
    name_ = *names().begin();
  }
  std::string file(const std::string& name) const { return bench_.file("checkpoints/" + name_ + "/" + name); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    if (!fs::exists(bench_.file("checkpoints"))) return found;
    for (const auto& entry : fs::directory_iterator(bench_.file("checkpoints"))) found.insert(entry.path().filename());
    return found;
  }
  /// All ranks refuse to load, for this reason, and what was live is as it was.
  void expect_refused(int ranks, Words words, const std::string& reason) {
    words.insert(words.end(), {"load=" + name_, "digests"});
    const Ended ended = run(ranks, words);
    for (int rank = 0; rank < ranks; ++rank) {
      const Words said = values(ended, rank, "refused");
      ASSERT_EQ(said.size(), 1U) << ended.out << ended.err;
      EXPECT_NE(said[0].find(reason), std::string::npos) << said[0];
      EXPECT_EQ(values(ended, rank, "unchanged"), Words{"yes"}) << said[0];
    }
  }
  void flip(const std::string& path) const {
    auto bytes = launch_test::read_file(path);
    bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
  }

  Bench bench_;
  std::string name_;
};

TEST_F(CheckpointTest, ABadFileOfOneRankIsRefusedByAllAndNothingLiveChanges) {
  save(2);
  const auto bytes = launch_test::read_file(file("rank-0001.safetensors"));
  flip(file("rank-0001.safetensors"));
  expect_refused(2, {}, "corruption a file of the checkpoint is not what was written: its SHA-256 does not fit; use another checkpoint (file=");
  fs::remove(file("rank-0001.safetensors"));
  expect_refused(2, {}, "corruption a file of the checkpoint is missing");
  std::ofstream(file("rank-0001.safetensors"), std::ios::binary) << bytes;
  flip(file("model.safetensors"));
  expect_refused(2, {}, "model.safetensors");
}

TEST_F(CheckpointTest, AnotherProgramsCheckpointIsRefusedWithWhatDiffers) {
  save(1);
  expect_refused(1, {"hidden=6"},
                 "checkpoint the checkpoint is of another model: tensor first.weight has another dtype or shape (checkpoint=float32 [5, 3], this "
                 "run=float32 [6, 3])");
  expect_refused(1, {"untied"}, "in the checkpoint inner.weight and again.weight are one tensor, in this model they are not");
  expect_refused(1, {"sgd"}, "the checkpoint is of another optimizer (group=0, saved=AdamW, this run=SGD)");
  expect_refused(1, {"no-schedule"}, "the checkpoint has a learning-rate schedule, this run has none");
  expect_refused(1, {"no-object"}, "this run has no registered object trail, the checkpoint has");
  expect_refused(1, {"other-loader"}, "this run is set otherwise than the one that was saved: loader/train/plan");
}

TEST_F(CheckpointTest, AnotherSeedOrNumberOfRanksIsRefused) {
  save(1);
  Words words{"load=" + name_, "digests"};
  Ended ended = run(1, words, {{"SAMERUN_SEED", "5"}});
  ASSERT_EQ(values(ended, 0, "refused").size(), 1U) << ended.err;
  EXPECT_NE(values(ended, 0, "refused")[0].find("run/seed (checkpoint=0, this run=5)"), std::string::npos) << ended.out;
  expect_refused(2, {}, "the checkpoint is of another number of ranks; start as many as it has (checkpoint=1, folder=");
}

TEST_F(CheckpointTest, WhereOneRanksDiskIsFullNoRankSavesAndAllSayTheSame) {
  for (const char* rank : {"0", "1"}) {
    const Ended ended = run(2, {"save-epochs", "epochs=1", "full-at=3", std::string("changes-of-rank=") + rank});
    ASSERT_EQ(ended.code, 0) << ended.err;
    const Words said = values(ended, 0, "not saved");
    ASSERT_EQ(said.size(), 1U) << ended.out;
    EXPECT_EQ(values(ended, 1, "not saved"), said);
    EXPECT_NE(said[0].find("No space left on device"), std::string::npos) << said[0];
    EXPECT_TRUE(names().empty()) << *names().begin();
  }
}

TEST_F(CheckpointTest, ARankThatDiesWhileSavingLeavesTheCheckpointsThatWereThere) {
  save(2);
  for (const char* rank : {"0", "1"}) {
    const Ended ended = run(2, {"load=" + name_, "save-epochs", "epochs=2", "die-at=5", std::string("changes-of-rank=") + rank});
    EXPECT_NE(ended.code, 0);
  }
  const Ended loaded = run(2, {"load=" + name_, "save-epochs", "epochs=2"});
  EXPECT_EQ(loaded.code, 0) << loaded.err;
  EXPECT_EQ(names().size(), 2U) << "what the dead saves left is gone";
}

TEST_F(CheckpointTest, RanksThatHoldDifferentValuesAreNotSavedAndTheLeafIsNamed) {
  const Ended ended = run(2, {"save-epochs", "epochs=1", "diverge"});
  const Words said = values(ended, 1, "not saved");
  ASSERT_EQ(said.size(), 1U) << ended.out << ended.err;
  EXPECT_NE(said[0].find("model/norm.running_mean"), std::string::npos) << said[0];
  EXPECT_TRUE(names().empty());
}

}  // namespace
}  // namespace samerun::ranks_test
