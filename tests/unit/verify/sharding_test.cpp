#include <algorithm>

#include "fake_pair.h"

namespace samerun::verify {
namespace {

using ShardingTest = PairTest;

Shard& shard_of(FakeRun& run, int rank, const std::string& purpose, std::int64_t pass, std::int64_t round) {
  for (auto& row : run.rank(rank).shards) {
    if (row.purpose == purpose && row.pass == pass && row.round == round) return row;
  }
  throw std::runtime_error("no such batch");
}

TEST_F(ShardingTest, ASampleThatComesTwiceInAPassIsNamed) {
  FakePair pair = clean_pair();
  Shard& batch = shard_of(pair.candidate, 1, "train", 0, 2);
  batch.ids[3] = shard_of(pair.candidate, 0, "train", 0, 0).ids[0];
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "sharding", "sample ids", "", 1));
  EXPECT_NE(all_evidence(report).find("repetition"), std::string::npos);
}

TEST_F(ShardingTest, RanksThatEachReadEverythingAreFound) {
  FakePair pair = clean_pair();
  for (FakeRun* run : pair.candidates()) {
    for (int rank = 1; rank < kRanks; ++rank) {
      for (auto& row : run->rank(rank).shards) {
        if (row.purpose == "train")
          row.ids = shard_of(*run, 0, "train", row.pass, row.round).ids, row.real = static_cast<std::int64_t>(row.ids.size()), row.filler = false;
      }
    }
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "sharding", "sample ids", "", 0));
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->check, "sharding");
}

TEST_F(ShardingTest, TheOrderOfEpochZeroAgainIsFoundAtTheSecondEpochsFirstStep) {
  FakePair pair = clean_pair();
  for (int rank = 0; rank < kRanks; ++rank) {
    for (auto& row : pair.candidate.rank(rank).shards) {
      if (row.purpose == "train" && row.pass == 1) row.ids = shard_of(pair.candidate, rank, "train", 0, row.round).ids;
    }
  }
  const Report report = judge(pair);
  EXPECT_TRUE(found(report, "sharding", "sample ids", "", 3));
  EXPECT_NE(all_evidence(report).find("in the order of pass 0 again"), std::string::npos);
}

TEST_F(ShardingTest, TheSameOrderAgainIsRightWithoutShuffling) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference, &pair.candidate64, &pair.reference64}) {
    run->set("train.shuffle", "false");
    for (auto& rank : run->ranks) {
      for (auto& row : rank.shards) {
        if (row.purpose != "train" || row.pass != 1) continue;
        for (const auto& other : rank.shards) {
          if (other.purpose == "train" && other.pass == 0 && other.global_batch == row.global_batch) row.ids = other.ids, row.digest = other.digest;
        }
      }
    }
  }
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(ShardingTest, PaddingThatCountsInEvaluationIsFound) {
  FakePair pair = clean_pair();
  Shard& last = shard_of(pair.candidate, 2, "evaluation", 0, 0);
  last.ids = {8, 9, 0, 1};
  last.real = 4;
  EXPECT_TRUE(found(judge(pair), "sharding", "sample ids", "", -1));
}

TEST_F(ShardingTest, PaddingThatDoesNotCountIsNoDifference) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference}) {
    for (auto& rank : run->ranks) {
      for (auto& row : rank.shards) {
        if (row.purpose == "evaluation" && row.real == 2) row.ids.insert(row.ids.end(), {0, 1});
      }
    }
  }
  const Report report = judge(pair);
  EXPECT_TRUE(same(report));
  EXPECT_NE(find_check(report, "sharding")->summary.find("evaluation pads with 2 rows"), std::string::npos)
      << find_check(report, "sharding")->summary;
}

TEST_F(ShardingTest, ASampleThatBothRunsLoseThoughEveryBatchCameIsFound) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference}) {
    for (auto& rank : run->ranks) {
      for (auto& row : rank.shards) {
        if (row.purpose == "train" && row.pass == 0 && row.global_batch == 4) row.ids.pop_back(), row.real = 3;
      }
    }
  }
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kDifferent);
  EXPECT_NE(all_evidence(report).find("never read"), std::string::npos) << all_evidence(report);
}

TEST_F(ShardingTest, AnEpochThatBothRunsLeaveEarlyIsNoDifference) {
  FakePair pair = clean_pair();
  for (FakeRun* run : {&pair.candidate, &pair.reference}) {
    for (auto& rank : run->ranks) {
      std::erase_if(rank.shards, [](const Shard& row) { return row.purpose == "evaluation" && row.pass == 1 && row.global_batch > 0; });
      std::erase_if(rank.sample_values, [](const SampleValues& rows) { return rows.pass == 1; });  // never asked for
      std::erase_if(rank.metrics, [](const Metric& row) { return row.pass == 1; });
    }
  }
  EXPECT_TRUE(same(judge(pair)));
}

TEST_F(ShardingTest, ABatchThatTheCandidateNeverHandsOutIsFound) {
  FakePair pair = clean_pair();
  std::erase_if(pair.candidate.rank(2).shards, [](const Shard& row) { return row.purpose == "train" && row.pass == 0 && row.round == 1; });
  EXPECT_TRUE(found(judge(pair), "sharding", "sample ids", "", 0));
}

TEST_F(ShardingTest, SamplesInAnotherStepAreFound) {
  FakePair pair = clean_pair();
  shard_of(pair.candidate, 0, "train", 0, 2).step = 2;
  EXPECT_TRUE(found(judge(pair), "sharding", "sample ids", "", 2));
}

TEST_F(ShardingTest, OtherContentsOfTheSameSamplesAreAnInputDifference) {
  FakePair pair = clean_pair();
  change_bits(shard_of(pair.candidate, 1, "train", 0, 1).digest);
  EXPECT_TRUE(found(judge(pair), "sharding", "inputs", "", 0));
}

TEST_F(ShardingTest, ADataSetWithOtherContentsIsAnInputDifference) {
  FakePair pair = clean_whole_pair();
  change_bits(pair.candidate.rank(0).datasets[0].digest);
  EXPECT_TRUE(found(judge(pair), "sharding", "inputs", "", -1));
}

TEST_F(ShardingTest, AnotherRandomStreamForABatchIsFound) {
  FakePair pair = clean_pair();
  shard_of(pair.candidate, 2, "train", 1, 0).stream_key ^= 1;
  EXPECT_TRUE(found(judge(pair), "sharding", "random stream", "", 3));
}

TEST_F(ShardingTest, WholeBatchesWithOtherSamplesAreFoundByStep) {
  FakePair pair = clean_whole_pair();
  Shard& batch = shard_of(pair.candidate, 0, "train", 0, 2);
  batch.ids.pop_back();
  batch.real -= 1;
  EXPECT_TRUE(found(judge(pair), "sharding", "sample ids", "", 1));
}

TEST_F(ShardingTest, AMissingBatchInARecordWithHolesIsInconclusive) {
  FakePair pair = clean_pair();
  pair.candidate.says_bye = false;
  pair.candidate.rank(1).shards.pop_back();
  const Report report = judge(pair);
  EXPECT_EQ(report.verdict, Verdict::kInconclusive) << all_evidence(report);
  EXPECT_EQ(first_evidence(report, "sharding").word, Verdict::kInconclusive);
}

}  // namespace
}  // namespace samerun::verify
