#include <algorithm>
#include <charconv>
#include <cstdio>

#include "commands.h"
#include "judge.h"
#include "record_access.h"
#include "report_file.h"
#include "run_settings.h"
#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"
#include "samerun/verify/verify.h"

namespace samerun::cli {
namespace {

/// The newest run of a role; 0 when there is none.
std::int64_t newest(const std::vector<recorder::RunRow>& runs, const std::string& role) {
  std::int64_t id = 0;
  for (const recorder::RunRow& run : runs) {
    if (run.role == role) id = std::max(id, run.id);
  }
  return id;
}

/// A pair that was stopped before both sides ran has no verdict, but what there is of it can be shown.
verify::Report half_pair(const std::string& group, std::int64_t candidate, std::int64_t reference) {
  verify::Report report;
  report.verdict = verify::Verdict::kRefused;
  report.group_id = group;
  report.candidate = candidate;
  report.reference = reference;
  report.summary =
      "refused: the record holds no run of the " + std::string(candidate == 0 ? "candidate" : "reference") + ", so there is nothing to compare";
  return report;
}

verify::Report judge_pair(const recorder::Reader& reader, const ReportOptions& options) {
  const std::vector<recorder::RunRow> runs = reader.group(options.pair);
  const std::int64_t candidate = newest(runs, "candidate"), reference = newest(runs, "reference");
  if (candidate == 0 && reference == 0) {
    throw Error(ErrorCode::kConfig, "the record has no pair " + options.pair + "; samerun runs lists runs and pairs");
  }
  if (candidate == 0 || reference == 0) return half_pair(options.pair, candidate, reference);
  return verify::verify(reader, candidate, reference, {options.strict});
}

verify::Report judge_runs(const recorder::Reader& reader, const ReportOptions& options) {
  std::int64_t run_a = 0;
  const char* end = options.pair.data() + options.pair.size();
  if (std::from_chars(options.pair.data(), end, run_a).ptr != end) {
    throw Error(ErrorCode::kConfig, "samerun report takes a pair or the numbers of two runs, and " + options.pair + " is not a number");
  }
  const TwoRuns runs = in_order(reader, run_a, *options.run_b);
  return verify::verify(reader, runs.candidate, runs.reference, {options.strict});
}

}  // namespace

int run_report(const ReportOptions& options) {
  const std::string record = resolve_record_dir(options.record_dir);
  refresh_record(record);
  const recorder::Reader reader(record);
  const verify::Report report = options.run_b ? judge_runs(reader, options) : judge_pair(reader, options);
  const std::string file = options.output.value_or(report_path(record, report));
  write_report(reader, report, record, file);
  std::printf("%s\n", file.c_str());
  return verify::exit_code(report.verdict);
}

}  // namespace samerun::cli
