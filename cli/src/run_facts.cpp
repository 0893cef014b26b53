#include "run_facts.h"

#include <algorithm>

#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

void take_step(RunFacts& facts, const Step& step) {
  ++facts.steps;
  facts.skipped_steps += step.skipped ? 1 : 0;
  facts.last_step = step;
  if (!facts.batch) facts.batch = RunFacts::Batch{step.samples_set, step.samples_counted, 0, std::nullopt};
  facts.batch->steps_that_disagree += step.samples_set != step.samples_counted ? 1 : 0;
  facts.batch->last_counted = step.samples_counted != facts.batch->counted ? std::optional(step.samples_counted) : std::nullopt;
}

void take_checkpoint(RunFacts& facts, const CheckpointCommitted& checkpoint) {
  const auto known = [&](const CheckpointCommitted& other) {
    return other.path == checkpoint.path && other.manifest_sha256 == checkpoint.manifest_sha256;
  };
  if (std::none_of(facts.checkpoints.begin(), facts.checkpoints.end(), known)) facts.checkpoints.push_back(checkpoint);
}

}  // namespace

RunFacts gather_facts(const recorder::Reader& reader, std::int64_t id) {
  RunFacts facts;
  const auto run = reader.run(id);
  if (!run) throw Error(ErrorCode::kConfig, "the record has no run " + std::to_string(id) + "; samerun runs lists them");
  facts.run = *run;
  facts.code = reader.code(id);
  facts.ranks = reader.ranks(id);
  facts.exits = reader.exits(id);
  facts.settings = reader.settings(id);
  facts.environment = reader.environment(id);
  facts.datasets = reader.datasets(id);
  facts.events = reader.events(id);
  facts.dropped_rows = reader.dropped_rows(id);
  facts.speed = read_speed(reader, facts.run);
  for (const recorder::MetricRow& row : reader.metrics(id)) {
    if (row.metric.rule == "logged" && row.rank != 0) continue;  // The metric is rank 0's.
    facts.metrics[{row.metric.name, row.metric.purpose}] = row.metric;
  }
  for (const recorder::CheckpointRow& row : reader.checkpoints(id)) take_checkpoint(facts, row.checkpoint);
  for (const recorder::StepRow& row : reader.steps(id)) {
    if (row.rank == 0) take_step(facts, row.step);  // The counts are over all ranks.
  }
  return facts;
}

}  // namespace samerun::cli
