// Writes report.html of made-up pairs, for the browser to open: sample_report KIND FILE.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>

#include "samerun/verify/report_html.h"

namespace {

using namespace samerun;
using namespace samerun::verify;

// Each would run if it reached the page as markup; a run sets a mark that the test looks for.
const std::string kHostile =
    "</script><script>document.documentElement.dataset.hostile=1</script><img src=x onerror=\"document.documentElement.dataset.hostile=2\">"
    "<!--'\"&\x01";

TensorCurve curve(const std::string& tensor, const std::string& arm, const std::string& stage, std::int64_t steps, double noise) {
  TensorCurve curve{tensor, stage, arm, {}, {}, {}, {}};
  for (std::int64_t step = 0; step < steps; ++step) {
    curve.steps.push_back(step);
    curve.value.push_back(step % 5 == 3 ? 0 : noise * (1 + 0.5 * std::sin(static_cast<double>(step))));
    curve.limit.push_back(64e-16 * (1 + 0.2 * std::cos(static_cast<double>(step))));
    curve.norm.push_back(1.5);
  }
  return curve;
}

Report clean() {
  Report report;
  report.verdict = Verdict::kSame;
  report.summary =
      "same: the 4-rank run is the experiment of the 1-rank run (tier S at step 0, float64 free-running over 20 steps, 14 of 14 tensors)";
  report.candidate = 1;
  report.reference = 2;
  report.group_id = "0badcafe";
  for (const char* name : {"comparable", "sharding", "settings", "gradient"})
    report.checks.push_back({name, Verdict::kSame, "all of it, bitwise", {}});
  report.coverage = {14, 14, 36, 20, 1, {}};
  report.coverage_tensors = 1;
  for (int i = 0; i < 14; ++i) report.curves.push_back(curve("layer" + std::to_string(i) + ".weight", "float64", "reduced gradient", 20, 2e-16));
  for (int i = 0; i < 14; ++i) report.curves.push_back(curve("layer" + std::to_string(i) + ".weight", "locked", "update", 1, 1e-16));
  return report;
}

ReportFacts facts() {
  ReportFacts facts;
  for (int id = 1; id <= 2; ++id) {
    recorder::RunRow run;
    run.id = id;
    run.role = id == 1 ? "candidate" : "reference";
    run.world_size = id == 1 ? 4 : 1;
    run.status = "finished";
    run.host = "host";
    run.complete = true;
    recorder::CodeRow code;
    code.head = "0123456789abcdef0123456789abcdef01234567";
    code.dirty = true;
    facts.runs.push_back({run, code});
  }
  facts.settings = {{"world_size", "4 (environment)", "1 (environment)"}, {"backend", "gloo (default)", std::nullopt}};
  facts.environment = {{"cpu.model", "A CPU", "A CPU"}, {"libtorch", "2.15.0", "2.15.0"}};
  facts.losses = {{"candidate", {0, 1, 2}, {2.3, 2.2, 2.0}}, {"reference", {0, 1, 2}, {2.3, 2.2, 2.0}}};
  facts.phases = {{"candidate", "10 steps of 4 ranks", 10, {{"data wait", 1}, {"compute", 7}, {"exposed communication", 1.5}, {"other", 0.5}}},
                  {"reference", "10 steps of 1 rank", 31, {{"data wait", 2}, {"compute", 28.5}, {"exposed communication", 0}, {"other", 0.5}}}};
  facts.scaling = "speed       made up; efficiency 0.78\n            and one more line\n";
  facts.reproduce = {{"Train again and judge.", "samerun pair -n 4 -- ./train"}};
  return facts;
}

void write(const Report& report, const ReportFacts& facts, const std::string& file) {
  std::ofstream(file, std::ios::binary) << to_html(report, facts);
}

void different(const std::string& file) {
  Report report = clean();
  report.verdict = Verdict::kDifferent;
  report.summary = "different: the 4-rank run is not the experiment of the 1-rank run; first, at step 3, reduced gradient: layer0.weight is off";
  report.curves.front() = curve("layer0.weight", "float64", "reduced gradient", 20, 1e-9);
  for (int i = 0; i < 30; ++i) {
    report.checks[3].evidence.push_back(
        {"gradient", Verdict::kDifferent, "reduced gradient", "layer0.weight", i, -1, 3, 1e-13, "layer0.weight is off"});
  }
  report.checks[3].word = Verdict::kDifferent;
  write(report, facts(), file);
}

/// Every text of the record is an attack.
void hostile(const std::string& file) {
  Report report = clean();
  ReportFacts all = facts();
  report.verdict = Verdict::kInconclusive;
  report.summary = report.group_id = kHostile;
  report.checks[0] = {kHostile, Verdict::kInconclusive, kHostile, {{kHostile, Verdict::kInconclusive, kHostile, kHostile, 1, 1, 1, 1, kHostile}}};
  report.not_exercised = report.coverage.undecided = {kHostile};
  report.curves = {curve(kHostile, "float64", kHostile, 20, 2e-16), curve(kHostile, "locked", kHostile, 1, 2e-16)};
  recorder::RunRow& run = all.runs[0].run;
  run.role = run.status = run.host = all.runs[0].code->head = all.runs[0].code->branch = kHostile;
  all.settings = all.environment = all.metrics = {{kHostile, kHostile, kHostile + "2"}};
  all.losses[0].run = all.phases[0].run = all.phases[0].parts[0].first = all.scaling = kHostile;
  all.missing = {kHostile};
  all.reproduce = {{kHostile, kHostile}};
  write(report, all, file);
}

/// What little there is of a pair that was stopped early.
void incomplete(const std::string& file) {
  Report report;
  report.verdict = Verdict::kRefused;
  report.summary = "refused: the record holds no run of the reference, so there is nothing to compare";
  report.candidate = 1;
  ReportFacts few;
  few.missing = {"no run of the reference was recorded"};
  write(report, few, file);
}

void large(const std::string& file) {
  Report report = clean();
  report.curves.clear();
  for (int i = 0; i < 64; ++i) {
    report.curves.push_back(
        curve("a.long.name.of.a.tensor.in.a.deep.model.block." + std::to_string(i) + ".weight", "float64", "reduced gradient", 200, 2e-16));
  }
  report.curves_left_out = 300;
  write(report, facts(), file);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(const std::string&)>> kinds = {
      {"clean", [](const std::string& file) { write(clean(), facts(), file); }},
      {"different", different},
      {"hostile", hostile},
      {"incomplete", incomplete},
      {"large", large}};
  if (argc != 3 || kinds.count(argv[1]) == 0) {
    std::fputs("sample_report clean|different|hostile|incomplete|large FILE\n", stderr);
    return 2;
  }
  kinds.at(argv[1])(argv[2]);
  return 0;
}
