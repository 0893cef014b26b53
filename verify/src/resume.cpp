#include <algorithm>
#include <map>
#include <set>

#include "findings.h"
#include "numeric.h"
#include "resume_record.h"
#include "run_rows.h"
#include "samerun/verify/verify.h"

// A run that was killed and resumed against one that went straight through: bit for bit, on the record alone.
namespace samerun::verify {
namespace {

CheckResult refused(const std::string& check, const std::string& text) {
  return {check, Verdict::kRefused, text, {{check, Verdict::kRefused, {}, {}, -1, -1, 0, 0, text}}};
}

bool trained(const RunData& run) {
  return std::any_of(run.steps.begin(), run.steps.end(), [](const auto& row) { return row.step.root_before != row.step.root_after; });
}

/// Why the runs cannot say anything about the program; empty where they can.
std::string why_not(const ResumeRecord& record) {
  const RunData& straight = record.straight;
  if (straight.steps.empty()) return run_name(straight) + " made no step";
  if (!trained(straight)) return "no parameter changed in " + run_name(straight) + ": nothing was trained";
  if (record.points.empty()) return "no run of the group was saved and resumed";
  for (const ResumePoint& point : record.points) {
    for (const auto* run : {&point.saving, &point.resumed, &point.cold}) {
      if (!*run) continue;
      const recorder::RunRow &row = (*run)->run, &other = straight.run;
      if (row.program_digest != other.program_digest) return "the program's file changed between " + run_name(straight) + " and " + run_name(**run);
      if (row.argv != other.argv) return run_name(**run) + " was started with other arguments than " + run_name(straight);
      if (row.world_size != other.world_size) return run_name(**run) + " has another number of ranks than " + run_name(straight);
      for (const char* key : {"threads", "seed", "accumulation_steps", "precision"}) {
        const std::string a = (*run)->setting(key), b = straight.setting(key);
        if (!(*run)->settings.empty() && a != b)
          return std::string(key) + " is " + a + " in " + run_name(**run) + ", and " + b + " in " + run_name(straight);
      }
    }
  }
  return {};
}

/// Why a run failed: what the rank that failed first said last, or else what its launcher says.
std::string failure(const recorder::Reader& reader, const RunData& run) {
  std::string why = run.run.message;
  for (const auto& exit : reader.exits(run.id())) {
    const std::size_t line = exit.stderr_tail.find_last_of('\n');
    if (exit.first_failure && !exit.stderr_tail.empty()) why = exit.stderr_tail.substr(line == std::string::npos ? 0 : line + 1);
  }
  const std::string prefix = "samerun: error: ";  // As the runtime begins its last line.
  if (why.starts_with(prefix)) why.erase(0, prefix.size());
  return run_name(run) + " failed" + (why.empty() ? "" : ": " + why);
}

class ResumeJudge {
 public:
  explicit ResumeJudge(const ResumeRecord& record) : record_(record) {}

  void judge(Report& report) {
    for (const ResumePoint& point : record_.points) {
      if (!point.saving) continue;
      const auto names = RunRows(record_.reader, *point.saving, record_.straight, {}).unlike_metrics();
      unrepeatable_.insert(names.begin(), names.end());
    }
    for (const ResumePoint& point : record_.points) judge_point(point, report);
    if (!unrepeatable_.empty()) {
      report.not_exercised.push_back("logged metrics that differ from run to run by themselves: " +
                                     some_names({unrepeatable_.begin(), unrepeatable_.end()}, 5));
    }
  }
  std::int64_t leaves() const { return leaves_; }
  std::int64_t equal_leaves() const { return equal_leaves_; }
  std::int64_t steps() const { return steps_; }

 private:
  void judge_point(const ResumePoint& point, Report& report) {
    CheckResult saving = check_saving(point);
    const bool repeats = !unlike_before_save_;
    report.checks.push_back(std::move(saving));
    report.checks.push_back(check_round_trip(point));
    report.checks.push_back(check_trajectory(point, repeats));
    report.checks.push_back(check_control(point));
  }

  // To save must not change what comes after; what differs before has other causes.
  CheckResult check_saving(const ResumePoint& point) {
    Findings findings("saving");
    unlike_before_save_ = false;
    if (!point.saving || point.steps < 0) {
      findings.inconclusive(at::kSteps, {}, -1, point.saving ? run_name(*point.saving) + " recorded no checkpoint" : "no run was saved");
      return findings.finish(point.text() + ": nothing to compare");
    }
    Findings before("saving");
    RunRows(record_.reader, *point.saving, record_.straight, {0, 0, point.steps}).compare(before, unrepeatable_);
    if (before.any_different()) {
      unlike_before_save_ = true;
      findings.inconclusive(at::kSteps, {}, before.finish("").evidence.front().step,
                            "two runs of the program differ before anything was saved, so it does not repeat itself bit for bit: " +
                                before.finish("").evidence.front().text);
      return findings.finish(point.text() + ": the program does not repeat itself");
    }
    const RowCounts counts = RunRows(record_.reader, *point.saving, record_.straight, {0, 0, point.killed}).compare(findings, unrepeatable_);
    if (point.killed <= point.steps) findings.inconclusive(at::kSteps, {}, point.steps, run_name(*point.saving) + " made no step after it had saved");
    return findings.finish("saved at " + point.text() + ", killed after step " + std::to_string(point.killed) + "; " +
                           count_of(counts.steps, "step row") + " bitwise");
  }

  void lost_leaf(const std::pair<int, std::string>& place, const ResumePoint& point, const std::string& text, Findings& findings) const {
    const auto& [rank, path] = place;
    findings.add({{}, Verdict::kDifferent, at::kLeaf, path, point.steps, rank, 0, 0, path + " on rank " + std::to_string(rank) + " " + text}, "leaf");
  }

  // All that was saved stands in the new processes before their first step.
  CheckResult check_round_trip(const ResumePoint& point) {
    Findings findings("round trip");
    std::set<int> ranks;
    std::int64_t equal = 0;
    for (const auto& [place, digest] : point.saved) {
      ranks.insert(place.first);
      const auto loaded = point.loaded.find(place);
      if (loaded == point.loaded.end()) {
        if (!point.loaded.empty()) lost_leaf(place, point, "was saved and is not there after the load", findings);
      } else if (loaded->second != digest) {
        lost_leaf(place, point, "was not restored: after the load it is not what was saved", findings);
      } else {
        ++equal;
      }
    }
    for (const auto& [place, digest] : point.loaded) {
      if (!point.saved.empty() && point.saved.count(place) == 0) lost_leaf(place, point, "is there after the load and was not saved", findings);
    }
    const int world = record_.straight.world();
    if (static_cast<int>(ranks.size()) < world)
      findings.inconclusive(at::kLeaf, {}, point.steps,
                            "the record holds what was saved on " + std::to_string(ranks.size()) + " of " + count_of(world, "rank"));
    if (point.loaded.empty())
      findings.inconclusive(
          at::kLeaf, {}, point.steps,
          point.resumed && !point.resumed->run.complete ? failure(record_.reader, *point.resumed) : "the record does not hold what was loaded");
    leaves_ += static_cast<std::int64_t>(point.saved.size());
    equal_leaves_ += equal;
    return findings.finish(point.text() + ": " + std::to_string(equal) + " of " +
                           count_of(static_cast<std::int64_t>(point.saved.size()), "leaf digest") + " equal after the load");
  }

  CheckResult check_trajectory(const ResumePoint& point, bool repeats) {
    Findings findings("trajectory");
    if (!point.whole() || point.resumed->steps.empty()) {
      findings.inconclusive(
          at::kSteps, {}, point.steps,
          point.resumed ? failure(record_.reader, *point.resumed) + ", before its first step" : "no run was resumed at " + point.text());
      return findings.finish(point.text() + ": nothing to compare");
    }
    if (!repeats) {
      findings.inconclusive(at::kSteps, {}, point.steps, "the program does not repeat itself bit for bit, so a resumed run cannot be judged");
      return findings.finish(point.text() + ": not compared");
    }
    const RowRange range{point.steps, point.rounds, record_.end(), true};
    const RowCounts counts = RunRows(record_.reader, *point.resumed, record_.straight, range).compare(findings, unrepeatable_);
    for (const auto& [rank, step] : point.resumed->steps) {
      if (step.step < point.steps)
        findings.add({{},
                      Verdict::kDifferent,
                      at::kSteps,
                      {},
                      step.step,
                      rank,
                      0,
                      0,
                      "the resumed run makes step " + std::to_string(step.step) + " again on rank " + std::to_string(rank)},
                     "again");
    }
    if (!record_.straight.whole_record())
      findings.inconclusive(at::kSteps, {}, record_.end(), "the record of " + run_name(record_.straight) + " has holes");
    if (!point.resumed->run.complete) findings.inconclusive(at::kSteps, {}, record_.end(), failure(record_.reader, *point.resumed));
    steps_ += counts.steps;
    return findings.finish("steps " + std::to_string(point.steps) + " to " + std::to_string(record_.end() - 1) + ": " +
                           count_of(counts.steps, "step row") + ", " + std::to_string(counts.batches) + " batches, " +
                           count_of(counts.metrics, "metric") + ", bitwise");
  }

  // If a start from the weights alone looked the same, so would a resume that forgets everything else.
  CheckResult check_control(const ResumePoint& point) {
    Findings findings("control");
    if (!point.whole() || !point.cold || point.cold->steps.empty() || point.resumed->steps.empty()) {
      findings.inconclusive(at::kSteps, {}, point.steps,
                            point.cold && point.cold->steps.empty() ? failure(record_.reader, *point.cold) + ", before its first step"
                                                                    : "there is no cold start to tell apart");
      return findings.finish(point.text() + ": nothing to compare");
    }
    const std::int64_t end = point.cold->steps.back().step.step + 1;
    Findings cold("control");
    RunRows(record_.reader, *point.cold, *point.resumed, {point.steps, point.rounds, std::max(end, point.steps + 1), false})
        .compare(cold, unrepeatable_);
    const bool elsewhere = point.cold->steps.front().step.step != point.steps;
    if (!cold.any_different() && !elsewhere) {
      return refused("control", "a cold start at " + point.text() +
                                    " with the weights alone makes the same steps: a resume that loses all else could not be told from a good one");
    }
    const std::string first = cold.any_different() ? cold.finish("").evidence.front().stage : "steps";
    return findings.finish("a cold start at " + point.text() + " differs, first in: " + first);
  }

  const ResumeRecord& record_;
  std::set<std::string> unrepeatable_;
  bool unlike_before_save_ = false;
  std::int64_t leaves_ = 0, equal_leaves_ = 0, steps_ = 0;
};

std::map<std::int64_t, std::int64_t> epochs_of(const RunData& run) {
  std::map<std::int64_t, std::int64_t> epochs;  // By step.
  for (const auto& row : run.shards) {
    if (row.rank == 0 && row.shard.step >= 0) epochs[row.shard.step] = row.shard.epoch;
  }
  return epochs;
}

/// Kinds of points that no run was saved at.
std::vector<std::string> kinds_left_out(const ResumeRecord& record) {
  const std::map<std::int64_t, std::int64_t> epochs = epochs_of(record.straight);
  bool within_epoch = false, within_window = false, at_end = false, windows = false;
  for (const auto& [rank, step] : record.straight.steps) windows = windows || step.micro_batches > record.straight.world();
  for (const ResumePoint& point : record.points) {
    const auto before = epochs.find(point.steps - 1), after = epochs.find(point.steps);
    const bool end = before != epochs.end() && after != epochs.end() && before->second != after->second;
    within_window = within_window || point.rounds > 0;
    at_end = at_end || (end && point.rounds == 0);
    within_epoch = within_epoch || (!end && point.rounds == 0 && point.steps > 0);
  }
  std::vector<std::string> texts;
  if (!within_epoch) texts.emplace_back("a checkpoint within an epoch");
  if (windows && !within_window) texts.emplace_back("a checkpoint within a window of micro-batches");
  if (!at_end) texts.emplace_back("a checkpoint at an epoch's end");
  return texts;
}

const RunData* run_of(const ResumeRecord& record, const std::optional<Evidence>& first, const Report& report) {
  const RunData* run = nullptr;
  std::size_t check = 0;
  for (const ResumePoint& point : record.points) {
    for (int i = 0; i < 4; ++i, ++check) {
      if (!first || check + 1 >= report.checks.size()) continue;
      for (const auto& evidence : report.checks[check + 1].evidence) {
        if (evidence.text == first->text && evidence.word == first->word && point.resumed) return &*point.resumed;
      }
    }
    if (point.resumed) run = &*point.resumed;
  }
  return run;
}

std::string points_text(const ResumeRecord& record) {
  std::string text;
  for (const ResumePoint& point : record.points) text += (text.empty() ? "" : ", ") + point.text().substr(point.text().find(' ') + 1);
  return text;
}

void conclude(Report& report, const ResumeRecord& record, const ResumeJudge& judge) {
  report.verdict = Verdict::kSame;
  for (const Verdict word : {Verdict::kDifferent, Verdict::kRefused, Verdict::kInconclusive}) {  // A difference that was found stands.
    if (report.verdict == Verdict::kSame && first_of(report.checks, word)) report.verdict = word;
  }
  const std::string word(to_string(report.verdict)), run = "the " + std::to_string(record.straight.world()) + "-rank run that was killed and resumed";
  const auto first = first_of(report.checks, report.verdict);
  if (report.verdict == Verdict::kSame) {
    report.summary = word + ": " + run + " at step " + points_text(record) + " is the run that went straight through, bit for bit (" +
                     count_of(judge.equal_leaves(), "leaf digest") + ", " + count_of(judge.steps(), "step row") + ", to step " +
                     std::to_string(record.end()) + ")";
  } else if (report.verdict == Verdict::kDifferent) {
    report.first = first;
    report.summary = word + ": " + run + " is not the run that went straight through; first, " + place_of(*first) + ": " + first->text;
  } else if (report.verdict == Verdict::kInconclusive) {
    report.summary = word + ": no difference was found, but " + first->text;
  } else {
    report.summary = word + ": " + first->text;
  }
  const RunData* resumed = run_of(record, first, report);
  report.candidate = resumed != nullptr ? resumed->id() : 0;
}

}  // namespace

Report verify_resume(const recorder::Reader& reader, const std::string& group_id) {
  const ResumeRecord record = load_resume(reader, group_id);
  Report report;
  report.group_id = group_id;
  report.reference = record.straight.id();
  ResumeJudge judge(record);
  const std::string refusal = why_not(record);
  if (!refusal.empty()) {
    report.checks.push_back(refused("comparable", refusal));
  } else {
    report.checks.push_back({"comparable", Verdict::kSame, "same program, arguments, ranks and settings; trained", {}});
    judge.judge(report);
    const std::vector<std::string> left_out = kinds_left_out(record);
    report.not_exercised.insert(report.not_exercised.end(), left_out.begin(), left_out.end());
  }
  report.coverage.tensors = judge.leaves();
  report.coverage.decided = judge.equal_leaves();
  report.coverage.steps = judge.steps();
  report.coverage_tensors = judge.leaves() == 0 ? 0 : static_cast<double>(judge.equal_leaves()) / static_cast<double>(judge.leaves());
  conclude(report, record, judge);
  return report;
}

}  // namespace samerun::verify
