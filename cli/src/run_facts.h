#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "samerun/recorder/reader.h"
#include "speed.h"

namespace samerun::cli {

/// What `samerun show` prints of one run, gathered from the record.
struct RunFacts {
  /// The effective batch over all steps: what the settings give, and what was counted.
  struct Batch {
    std::int64_t set = 0, counted = 0;  ///< Of the first step.
    std::int64_t steps_that_disagree = 0;
    std::optional<std::int64_t> last_counted;  ///< Where the last step differs from the first.
  };

  recorder::RunRow run;
  std::optional<recorder::CodeRow> code;
  std::vector<recorder::RankRow> ranks;
  std::vector<recorder::RankExitRow> exits;
  std::vector<recorder::SettingRow> settings;
  std::vector<recorder::EnvironmentRow> environment;
  std::vector<recorder::DatasetRow> datasets;
  std::vector<recorder::EventRow> events;
  std::map<std::pair<std::string, std::string>, Metric> metrics;  ///< Last value of each, by name and purpose.
  std::vector<CheckpointCommitted> checkpoints;                   ///< Each once, though every rank may have told it.
  std::int64_t steps = 0, skipped_steps = 0;
  std::optional<Batch> batch;
  std::optional<Step> last_step;
  std::int64_t dropped_rows = 0;
  RunSpeed speed;
};

/// Throws kConfig when the record has no such run.
RunFacts gather_facts(const recorder::Reader& reader, std::int64_t run);

std::string facts_text(const RunFacts& facts);
std::string facts_json(const RunFacts& facts);

}  // namespace samerun::cli
