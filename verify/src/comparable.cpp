#include <algorithm>
#include <set>

#include "check.h"
#include "findings.h"
#include "numeric.h"
#include "tensor_rows.h"

// Decides whether a comparison would say anything at all. What it finds refuses the pair before any check runs.
namespace samerun::verify {
namespace {

void refuse(Findings& findings, const std::string& stage, const std::string& text) {
  findings.add({{}, Verdict::kRefused, stage, {}, -1, -1, 0, 0, text}, text);
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::set<std::string> builds(const RunData& run) {
  std::set<std::string> ids;
  for (const auto& rank : run.ranks) {
    if (!rank.build_id.empty()) ids.insert(rank.build_id);
  }
  return ids;
}

void same_program(const RunData& d, const RunData& r, Findings& findings) {
  const auto program_d = d.run.program_digest, program_r = r.run.program_digest;
  const auto builds_d = builds(d), builds_r = builds(r);
  if (program_d != program_r && !program_d.empty() && !program_r.empty()) {
    refuse(findings, "program", "the program files differ: digest " + program_d + " against " + program_r);
  } else if (builds_d != builds_r && !builds_d.empty() && !builds_r.empty()) {
    refuse(findings, "program", "the ranks ran different builds: " + *builds_d.begin() + " against " + *builds_r.begin());
  }
  if (d.run.argv != r.run.argv) {
    refuse(findings, "arguments", "the arguments differ: \"" + joined(d.run.argv) + "\" against \"" + joined(r.run.argv) + "\"");
  }
  const auto precision_d = d.setting("precision"), precision_r = r.setting("precision");
  if (precision_d != precision_r) refuse(findings, "precision", "one run is in " + precision_d + " precision, the other in " + precision_r);
}

// Inside a pair the same program was started both times: other data is then a finding of the sharding check.
void same_data(const RunData& d, const RunData& r, Findings& findings) {
  if (d.purposes() != r.purposes()) {
    refuse(findings, "data", "the loaders differ: " + some_names(d.purposes(), 4) + " against " + some_names(r.purposes(), 4));
    return;
  }
  for (const auto& purpose : d.purposes()) {
    const auto name_d = d.setting(purpose + ".dataset"), name_r = r.setting(purpose + ".dataset");
    if (name_d != name_r) refuse(findings, "data", "the " + purpose + " data differ: \"" + name_d + "\" against \"" + name_r + "\"");
    const auto size_d = d.dataset_size(purpose), size_r = r.dataset_size(purpose);
    if (size_d == size_r) continue;
    refuse(findings, "data", "the " + purpose + " data differ: " + count_of(size_d, "sample") + " against " + std::to_string(size_r));
  }
}

// Content digests are sums over the samples that a run has read: comparable only where both read all of them.
void same_contents(const RunData& d, const RunData& r, Findings& findings) {
  for (const auto& purpose : d.purposes()) {
    const auto contents = [&purpose](const RunData& run) {
      Digest sum;
      std::int64_t rows = 0;
      for (const auto& row : run.datasets) {
        if (row.dataset.purpose != purpose) continue;
        sum = add(sum, row.dataset.digest);
        rows += row.dataset.rows;
      }
      return std::pair(rows, sum);
    };
    const auto [rows_d, sum_d] = contents(d);
    const auto [rows_r, sum_r] = contents(r);
    const auto size = d.dataset_size(purpose);
    if (rows_d == size && rows_r == size && sum_d != sum_r) refuse(findings, "data", "the contents of the " + purpose + " data differ");
  }
}

void same_request(const RunData& d, const RunData& r, Findings& findings) {
  for (const auto& purpose : d.purposes()) {
    const auto batch_d = d.setting(purpose, "effective_batch"), batch_r = r.setting(purpose, "effective_batch");
    if (batch_d != batch_r)
      refuse(findings, "effective batch", "the effective batch differs: " + batch_d + " against " + batch_r + " samples a step");
  }
  const auto steps_d = d.first_rank_steps().size(), steps_r = r.first_rank_steps().size();
  if (steps_d != steps_r) {
    refuse(findings, "steps", "the number of steps differs: " + std::to_string(steps_d) + " against " + std::to_string(steps_r));
  }
}

bool parameters_unchanged(const PairRecord& pair, const RunData& run) {
  const auto steps = run.first_rank_steps();
  if (steps.empty()) return false;
  return steps.front()->root_before == steps.back()->root_after || all_zero(pair.reader, run.id(), stage::kUpdate);
}

// One dead run among two is a difference, and the other checks name it; two dead runs agree about nothing.
void something_happened(const PairRecord& pair, Findings& findings) {
  const RunData& d = pair.native.candidate;
  const RunData& r = pair.native.reference;
  if (d.first_rank_steps().empty() || r.first_rank_steps().empty()) {
    const RunData& idle = d.first_rank_steps().empty() ? d : r;
    refuse(findings, "steps",
           "no step can be compared: " + run_name(idle) + " recorded none" + (idle.run.message.empty() ? "" : " (" + idle.run.message + ")") +
               "; train with what accelerator.prepare(model, optimizer) returns");
    return;
  }
  if (all_zero(pair.reader, d.id(), stage::kRaw) && all_zero(pair.reader, r.id(), stage::kRaw)) {
    refuse(findings, "gradients", "every gradient of both runs is zero");
  }
  if (parameters_unchanged(pair, d) && parameters_unchanged(pair, r)) {
    refuse(findings, "parameters", "the parameters never changed in either run");
  }
}

}  // namespace

CheckResult check_comparable(const PairRecord& pair) {
  Findings findings("comparable");
  const RunData& d = pair.native.candidate;
  const RunData& r = pair.native.reference;
  if (d.id() == r.id()) {
    refuse(findings, "runs", "candidate and reference are the same run, " + std::to_string(d.id()));
    return findings.finish("one run against itself");
  }
  same_program(d, r, findings);
  if (!pair.one_group) {
    same_data(d, r, findings);
    same_contents(d, r, findings);
    same_request(d, r, findings);
  }
  something_happened(pair, findings);
  for (const char* reason : {"whole-random", "whole-buffers"}) {
    const std::string text = r.event(reason);
    if (pair.whole_reference && !text.empty()) refuse(findings, at::kStream, text);
  }
  return findings.finish(findings.empty() ? "same program, data and request; both runs trained" : "the runs cannot be compared");
}

}  // namespace samerun::verify
