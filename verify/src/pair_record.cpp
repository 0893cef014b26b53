#include "pair_record.h"

#include <algorithm>
#include <set>

#include "numeric.h"
#include "samerun/core/error.h"

namespace samerun::verify {

RunData load_run(const recorder::Reader& reader, const recorder::RunRow& row, bool with_shards) {
  RunData data;
  data.run = row;
  data.ranks = reader.ranks(row.id);
  data.settings = reader.settings(row.id);
  data.datasets = reader.datasets(row.id);
  if (with_shards) data.shards = reader.shards(row.id);
  data.steps = reader.steps(row.id);
  data.group_steps = reader.group_steps(row.id);
  data.locked = reader.locked(row.id);
  data.events = reader.events(row.id);
  data.dropped = reader.dropped_rows(row.id);
  return data;
}

namespace {

recorder::RunRow find_run(const recorder::Reader& reader, std::int64_t id, const char* what) {
  const auto row = reader.run(id);
  if (row) return *row;
  throw Error(ErrorCode::kConfig, std::string("the record has no run with this number; `samerun runs` lists them"),
              {{"run", std::to_string(id)}, {"given as", what}});
}

// A pair that was tried again leaves several runs of one role: take the last whole one, or else the last.
const recorder::RunRow* last_of_role(const std::vector<recorder::RunRow>& group, const std::string& role) {
  const recorder::RunRow* last = nullptr;
  for (const auto& row : group) {
    if (row.role == role && (last == nullptr || row.complete || !last->complete)) last = &row;
  }
  return last;
}

void load_shadow(PairRecord& pair, const std::vector<recorder::RunRow>& group) {
  const auto* candidate = last_of_role(group, "candidate64");
  const auto* reference = last_of_role(group, "reference64");
  if (candidate == nullptr || reference == nullptr) {
    pair.shadow_missing = "the record has no float64 run of the " + std::string(candidate == nullptr ? "candidate" : "reference");
    return;
  }
  pair.shadow = Arm{"float64", load_run(pair.reader, *candidate, true), load_run(pair.reader, *reference, true)};
  for (const RunData* run : {&pair.shadow->candidate, &pair.shadow->reference}) {
    if (!run->steps.empty()) continue;
    pair.shadow_missing = "the float64 " + run_name(*run) + " made no step" + (run->run.message.empty() ? "" : ": " + run->run.message);
  }
  if (!pair.shadow_missing.empty()) {
    pair.shadow.reset();
    return;
  }
  std::set<std::string> roles;
  for (const auto& row : group) {
    if (row.role.rfind("rerun64-", 0) == 0) roles.insert(row.role);
  }
  for (const auto& role : roles) {
    const auto* row = last_of_role(group, role);
    if (row->complete) pair.reruns.push_back(load_run(pair.reader, *row, false));
  }
}

}  // namespace

std::string RunData::setting(const std::string& key) const {
  for (const auto& row : settings) {
    if (row.rank == 0 && row.setting.key == key) return row.setting.value;
  }
  return {};
}

std::string RunData::setting(const std::string& purpose, const std::string& key) const {
  const std::string of_purpose = setting(purpose + "." + key);
  return of_purpose.empty() ? setting(key) : of_purpose;
}

std::string RunData::event(const std::string& kind) const {
  for (const auto& row : events) {
    if (row.event.kind == kind) return row.event.text;
  }
  return {};
}

std::vector<const Step*> RunData::first_rank_steps() const {
  std::vector<const Step*> first;
  for (const auto& row : steps) {
    if (row.rank == 0) first.push_back(&row.step);
  }
  return first;
}

std::vector<std::string> RunData::purposes() const {
  std::set<std::string> names;
  for (const auto& row : datasets) names.insert(row.dataset.purpose);
  // a loader that a program left before its end has settings, and no data set row
  const std::string suffix = ".batch_size";
  for (const auto& row : settings) {
    const std::string& key = row.setting.key;
    if (key.size() > suffix.size() && key.ends_with(suffix)) names.insert(key.substr(0, key.size() - suffix.size()));
  }
  return {names.begin(), names.end()};
}

std::int64_t RunData::dataset_size(const std::string& purpose) const {
  for (const auto& row : datasets) {
    if (row.dataset.purpose == purpose) return row.dataset.size;
  }
  return whole_number(setting(purpose + ".size"), -1);
}

std::vector<const Arm*> PairRecord::arms() const {
  if (shadow && shadow->candidate.id() != native.candidate.id()) return {&native, &*shadow};
  return {&native};
}

PairRecord load_pair(const recorder::Reader& reader, std::int64_t candidate, std::int64_t reference) {
  const auto candidate_row = find_run(reader, candidate, "candidate");
  const auto reference_row = find_run(reader, reference, "reference");
  PairRecord pair{reader, {"native", load_run(reader, candidate_row, true), load_run(reader, reference_row, true)}, {}, {}, {}};
  pair.one_group = candidate != reference && !candidate_row.group_id.empty() && candidate_row.group_id == reference_row.group_id;
  const RunData& of_reference = pair.native.reference;
  pair.whole_reference = of_reference.setting("reference") == "whole";
  const RunData& of_candidate = pair.native.candidate;
  pair.same_micro_batches = !pair.whole_reference;
  for (const auto& purpose : of_candidate.purposes()) {
    pair.same_micro_batches = pair.same_micro_batches && of_candidate.setting(purpose, "batch_size") == of_reference.setting(purpose, "batch_size");
  }
  if (pair.one_group) {
    load_shadow(pair, reader.group(candidate_row.group_id));
  } else {
    pair.shadow_missing = "the runs were not planned as a pair";
  }
  return pair;
}

std::string run_name(const RunData& run) {
  return "run " + std::to_string(run.id()) + " (" + run.run.role + ", " + count_of(run.world(), "rank") + ")";
}

}  // namespace samerun::verify
