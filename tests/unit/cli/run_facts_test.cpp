#include "run_facts.h"

#include <gtest/gtest.h>

namespace samerun::cli {
namespace {

RunFacts facts_of_a_resumed_run() {
  RunFacts facts;
  facts.run.id = 8;
  facts.run.role = "run";
  facts.run.status = "finished";
  facts.run.parent_id = 7;
  Metric logged{3, 0, "loss", 0.25, "logged"};
  Metric accuracy{3, 0, "accuracy", 0.75, "mean", "evaluation", 2, 270, 360, 360};
  facts.metrics[{logged.name, logged.purpose}] = logged;
  facts.metrics[{accuracy.name, accuracy.purpose}] = accuracy;
  CheckpointCommitted checkpoint;
  checkpoint.position.optimizer_step = 40;
  checkpoint.position.epoch = 2;
  checkpoint.path = "/data/step-40";
  checkpoint.bytes = 12'345;
  checkpoint.manifest_sha256 = "ab";
  facts.checkpoints.push_back(checkpoint);
  return facts;
}

TEST(RunFactsTest, TheTextNamesTheParentTheCheckpointsAndTheRuleOfEachMetric) {
  const std::string text = facts_text(facts_of_a_resumed_run());
  EXPECT_NE(text.find("goes on from run 7"), std::string::npos) << text;
  EXPECT_NE(text.find("mean over 360 samples, evaluation pass 2"), std::string::npos) << text;
  EXPECT_NE(text.find("step 3, epoch 0  logged\n"), std::string::npos) << text;
  EXPECT_NE(text.find("step 40  epoch 2  12345 bytes  /data/step-40"), std::string::npos) << text;
}

TEST(RunFactsTest, TheJsonHasThemToo) {
  const std::string json = facts_json(facts_of_a_resumed_run());
  for (const char* part : {"\"parent\": 7", "\"purpose\": \"evaluation\"", "\"rows\": 360", "\"purpose\": null", "\"path\": \"/data/step-40\"",
                           "\"manifest_sha256\": \"ab\""}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  }
}

TEST(RunFactsTest, ARunThatBeganAnewHasNoParent) {
  RunFacts facts = facts_of_a_resumed_run();
  facts.run.parent_id.reset();
  EXPECT_EQ(facts_text(facts).find("goes on from"), std::string::npos);
  EXPECT_NE(facts_json(facts).find("\"parent\": null"), std::string::npos);
}

}  // namespace
}  // namespace samerun::cli
