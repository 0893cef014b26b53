#include "fake_pair.h"

namespace samerun::verify {
namespace {

using ReplicasTest = PairTest;

TEST_F(ReplicasTest, ATensorThatOneRankDidNotReduceIsNamedWithItsRankAndFirstStep) {
  FakePair pair = clean_pair();
  for (std::int64_t step = 2; step < kSteps; ++step) {
    pair.candidate.each_step(step, [](Step& row, int rank) { rank == 2 ? change_bits(row.root_raw) : void(); });
    pair.candidate.each_tensor(stage::kRaw, step, kHead, [](TensorTrace& row, int rank) { rank == 2 ? change_bits(row.digest) : void(); });
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "replicas", "reduced gradient", kHead, 2));
  EXPECT_EQ(first_evidence(report, "replicas").rank, 2);
}

TEST_F(ReplicasTest, AParameterThatDriftsOnOneRankIsNamed) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(5, [](Step& row, int rank) { rank == 1 ? change_bits(row.root_after) : void(); });
  pair.candidate.each_tensor(stage::kState, 5, kBias, [](TensorTrace& row, int rank) { rank == 1 ? change_bits(row.digest) : void(); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "replicas", "state", kBias, 5));
  EXPECT_EQ(first_evidence(report, "replicas").rank, 1);
}

TEST_F(ReplicasTest, ABufferThatEachRankKeepsForItselfIsNamedAsOne) {
  FakePair pair = clean_pair();
  for (int rank = 0; rank < kRanks; ++rank) {
    TensorTrace buffer{1, stage::kState, "norm.running_mean", rank, -1, "float32", {2}, 2};
    buffer.digest = digest_text(rank == 0 ? "of rank 0" : "of the others");
    pair.candidate.rank(rank).tensors.push_back(buffer);
  }
  pair.candidate.each_step(1, [](Step& row, int rank) { rank != 0 ? change_bits(row.root_after) : void(); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "replicas", "state", "norm.running_mean", 1));
  EXPECT_NE(first_evidence(report, "replicas").text.find("it is a buffer"), std::string::npos) << all_evidence(report);
}

TEST_F(ReplicasTest, AClipFactorOfItsOwnOnRankZeroIsFound) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(4, [](Step& row, int rank) { row.clip_factor = rank == 0 ? row.clip_factor * 0.5 : row.clip_factor; });
  EXPECT_TRUE(found(judge(pair), "replicas", "clipped gradient", "", 4));
}

TEST_F(ReplicasTest, OptimizerStateThatDiffersIsFoundWithoutATensorsName) {
  FakePair pair = clean_pair();
  pair.candidate.each_step(5, [](Step& row, int rank) { rank == 1 ? change_bits(row.root_moments_after) : void(); });
  EXPECT_TRUE(found(judge(pair), "replicas", "state", "", 5));
}

TEST_F(ReplicasTest, OneStreamForAllRanksIsFound) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    for (int rank = 1; rank < kRanks; ++rank) {
      for (std::size_t i = 0; i < run->rank(rank).shards.size(); ++i) {
        if (!run->rank(rank).shards[i].filler) run->rank(rank).shards[i].stream_key = run->rank(0).shards[i].stream_key;
      }
    }
  }
  EXPECT_TRUE(found(judge(pair), "replicas", "random stream", "", 0));
}

TEST_F(ReplicasTest, EqualGradientsOfOtherSamplesBeforeTheReductionAreFound) {
  FakePair pair = clean_pair();
  std::vector<Digest> of_first;
  pair.candidate.each_tensor(stage::kLocal, 0, "", [&](TensorTrace& row, int rank) { rank == 0 ? of_first.push_back(row.digest) : void(); });
  std::size_t next = 0;
  pair.candidate.each_tensor(stage::kLocal, 0, "", [&](TensorTrace& row, int rank) {
    if (rank == 1) row.digest = of_first.at(next++);
  });
  EXPECT_TRUE(found(judge(pair), "replicas", "local gradient", "", 0));
}

TEST_F(ReplicasTest, EqualZeroGradientsBeforeTheReductionAreNoFinding) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference}) {
    run->each_tensor(stage::kLocal, 0, "", [](TensorTrace& row, int) {
      const std::vector<float> zeros(static_cast<std::size_t>(row.numel));
      row.digest = digest_bytes(zeros.data(), zeros.size() * sizeof(float));
    });
  }
  EXPECT_TRUE(same(judge(pair)));
}

using InitialTest = PairTest;

TEST_F(InitialTest, ALayerSeededByRankIsNamedWithItsRank) {
  FakePair pair = clean_pair();
  pair.candidate.each_tensor(stage::kInitial, -1, kHead, [](TensorTrace& row, int rank) { rank == 2 ? change_bits(row.digest) : void(); });
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "initial", "initial state", kHead, 0));
  EXPECT_EQ(first_evidence(report, "initial").rank, 2);
  EXPECT_EQ(report.first->check, "initial");
}

TEST_F(InitialTest, ATensorOfAnotherShapeIsNamed) {
  FakePair pair = clean_pair();
  pair.candidate.each_tensor(stage::kInitial, -1, kBody, [](TensorTrace& row, int) { row.shape = {30, 10}; });
  EXPECT_TRUE(found(judge(pair), "initial", "initial state", kBody, 0));
}

TEST_F(InitialTest, ATensorThatTheReferenceHasNotIsNamed) {
  FakePair pair = clean_pair();
  std::erase_if(pair.reference.rank(0).tensors, [](const TensorTrace& row) { return row.stage == stage::kInitial && row.name == kBias; });
  EXPECT_TRUE(found(judge(pair), "initial", "initial state", kBias, 0));
}

TEST_F(InitialTest, NoInitialStateInTheRecordIsInconclusive) {
  FakePair pair = clean_pair();
  std::erase_if(pair.reference.rank(0).tensors, [](const TensorTrace& row) { return row.stage == stage::kInitial; });
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
}

}  // namespace
}  // namespace samerun::verify
