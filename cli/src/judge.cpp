#include "judge.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "host.h"
#include "record_access.h"
#include "report_file.h"
#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"
#include "samerun/verify/verify.h"
#include "speed.h"

namespace samerun::cli {
namespace {

recorder::EvidenceRow row(const verify::Evidence& evidence) {
  return {evidence.check, std::string(verify::to_string(evidence.word)),
          evidence.stage, evidence.tensor,
          evidence.step,  evidence.rank,
          evidence.value, evidence.limit,
          evidence.text};
}

/// Each check leads with a row of its own that says what was compared.
recorder::VerdictRow verdict_row(const verify::Report& report) {
  recorder::VerdictRow verdict;
  verdict.group_id = report.group_id;
  verdict.candidate = report.candidate;
  verdict.reference = report.reference;
  verdict.word = verify::to_string(report.verdict);
  verdict.summary = report.summary;
  for (const verify::CheckResult& check : report.checks) {
    recorder::EvidenceRow summary;
    summary.check = check.name;
    summary.word = verify::to_string(check.word);
    summary.text = check.summary;
    verdict.evidence.push_back(summary);
    for (const verify::Evidence& evidence : check.evidence) verdict.evidence.push_back(row(evidence));
  }
  return verdict;
}

/// A record on read-only media can still be judged.
void keep(const verify::Report& report, const std::string& record, recorder::Store* store) {
  try {
    std::unique_ptr<recorder::Store> opened;
    if (store == nullptr) {
      opened = std::make_unique<recorder::Store>(record_folder(record));
      store = opened.get();
    }
    store->add_verdict(verdict_row(report));
  } catch (const Error& error) {
    std::fprintf(stderr, "samerun: warning: the verdict is not stored: %s\n", error.what());
  }
}

constexpr int kNotWritten = 3;

/// The verdict has been told: what keeps the page from being written must not hide it.
bool write_html(const recorder::Reader& reader, const verify::Report& report, const Judging& judging) {
  const std::string file = report_path(judging.record, report);
  try {
    write_report(reader, report, judging.record, file);
    if (!judging.quiet) std::fprintf(stderr, "samerun: report %s\n", file.c_str());
    return true;
  } catch (const Error& error) {
    std::fprintf(stderr, "samerun: %s\n", error.what());
    return false;
  }
}

/// The verdict, and how fast the runs were, in the lines that a verdict may have.
std::string text_of(const verify::Report& report, const std::string& record) {
  std::string speed;
  if (report.verdict != verify::Verdict::kRefused) speed = scaling_text(recorder::Reader(record), report.candidate, report.reference);
  const auto lines = static_cast<std::size_t>(std::count(speed.begin(), speed.end(), '\n'));
  return verify::to_text(report, wants_color(STDOUT_FILENO), verify::kReportLines - lines) + speed;
}

}  // namespace

int tell(const verify::Report& report, const std::string& text, const std::string& record, recorder::Store* store) {
  std::fputs(text.c_str(), stdout);
  if (!text.ends_with('\n')) std::fputc('\n', stdout);
  std::fflush(stdout);
  keep(report, record, store);
  return verify::exit_code(report.verdict);
}

int judge(const Judging& judging, recorder::Store* store) {
  const recorder::Reader reader(judging.record);
  const verify::Report report = verify::verify(reader, judging.candidate, judging.reference, {judging.strict});
  const std::string text = judging.json ? verify::to_json(report) : text_of(report, judging.record);
  const int code = tell(report, text, judging.record, store);
  return judging.html && !write_html(reader, report, judging) && code == 0 ? kNotWritten : code;
}

}  // namespace samerun::cli
