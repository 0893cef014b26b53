#include "resume_check.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "commands.h"
#include "host.h"
#include "judge.h"
#include "launcher.h"
#include "program.h"
#include "resume_plan.h"
#include "run_steps.h"
#include "samerun/core/clock.h"
#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"
#include "samerun/verify/verify.h"
#include "scratch_folder.h"

namespace samerun::cli {
namespace {

constexpr const char* kLoadFailed = "what rests on this run will be inconclusive\n";

class ResumeSession {
 public:
  ResumeSession(const ResumeCheck& check, recorder::Store& store)
      : check_(check),
        store_(store),
        points_(parse_points(check.points)),
        checkpoints_(std::filesystem::absolute(store.folder()) / "checkpoints" / ("check-" + check.group), check.keep_checkpoints),
        plan_(check.command, check.settings, check.group, checkpoints_.path(), check.extra),
        steps_(0, check.quiet) {}

  int run();

 private:
  /// All runs; an exit code when there is nothing to judge.
  std::optional<int> run_all();
  std::optional<int> run_straight(Launcher& launcher);
  std::optional<int> run_point(Launcher& launcher, int number, const SavePoint& point);
  std::filesystem::path saved_checkpoint(std::int64_t run) const;
  void settle_points(std::int64_t run);

  const ResumeCheck& check_;
  recorder::Store& store_;
  std::vector<SavePoint> points_;
  ScratchFolder checkpoints_;
  ResumePlan plan_;
  RunSteps steps_;
  std::int64_t end_ = 0;  ///< Optimizer steps of the straight run.
};

std::string ranks_text(const LaunchSpec& spec) {
  return std::to_string(spec.world_size) + (spec.world_size == 1 ? " rank" : " ranks");
}

/// Where the straight run ended, and where to save on the way.
void ResumeSession::settle_points(std::int64_t run) {
  const recorder::Reader reader(store_.folder());
  const auto rows = reader.steps(run);
  end_ = rows.empty() ? 0 : rows.back().step.step + 1;
  if (points_.empty()) points_ = choose_points(reader, run);
  if (points_.empty()) {
    throw Error(ErrorCode::kConfig, "the program made " + std::to_string(end_) +
                                        " optimizer steps: too few to save and go on; give it more data or epochs, or name --points");
  }
  for (const SavePoint& point : points_) {
    if (point.steps < end_) continue;
    throw Error(ErrorCode::kConfig, "--points has " + point.text() + ", and the program made " + std::to_string(end_) +
                                        " optimizer steps: a point must leave a step to go on with");
  }
  steps_.set_total(static_cast<int>(points_.size()) * 3 + 2);
}

std::optional<int> ResumeSession::run_straight(Launcher& launcher) {
  const LaunchSpec spec = plan_.straight(check_.steps);
  const LaunchResult straight = steps_.run(launcher, spec, "straight through, " + ranks_text(spec));
  if (!straight.good()) {
    report_failure(straight, "straight", "");
    return straight.exit_code;
  }
  settle_points(straight.run);
  return std::nullopt;
}

/// A program may set the folder of its checkpoints itself, so the record is asked.
std::filesystem::path ResumeSession::saved_checkpoint(std::int64_t run) const {
  const auto rows = recorder::Reader(store_.folder()).checkpoints(run);
  if (!rows.empty()) return rows.back().checkpoint.path;
  throw Error(ErrorCode::kCheckpoint, "run " + std::to_string(run) +
                                          " saved nothing where it was told to: is the point inside a window, or past the program's end? name others "
                                          "with --points");
}

std::optional<int> ResumeSession::run_point(Launcher& launcher, int number, const SavePoint& point) {
  const LaunchResult saving = steps_.run(launcher, plan_.saving(number, point, end_), "saved at step " + point.text() + " and killed");
  if (!saving.good()) {
    report_failure(saving, "saving-" + std::to_string(number), "");
    return saving.exit_code;
  }
  const ScratchFolder checkpoint(saved_checkpoint(saving.run), check_.keep_checkpoints);
  const LaunchResult resumed =
      steps_.run(launcher, plan_.resumed(number, checkpoint.path().string(), end_), "resumed at step " + point.text() + " in new processes");
  if (!resumed.good()) report_failure(resumed, "resumed-" + std::to_string(number), kLoadFailed);
  if (told_to_stop(resumed)) return resumed.exit_code;
  if (!resumed.good()) {
    steps_.skip();  // Nothing for a cold start to be told from.
    return std::nullopt;
  }
  const LaunchResult cold =
      steps_.run(launcher, plan_.cold(number, checkpoint.path().string(), point, end_), "cold start at step " + point.text() + ", which must differ");
  if (!cold.good()) report_failure(cold, "cold-" + std::to_string(number), kLoadFailed);
  if (told_to_stop(cold)) return cold.exit_code;
  return std::nullopt;
}

std::optional<int> ResumeSession::run_all() {
  Launcher launcher(&store_);
  if (const std::optional<int> code = run_straight(launcher)) return code;
  int number = 0;
  for (const SavePoint& point : points_) {
    if (const std::optional<int> code = run_point(launcher, ++number, point)) return code;
  }
  return std::nullopt;
}

int ResumeSession::run() {
  const std::int64_t begin_ns = monotonic_now_ns();
  if (const std::optional<int> code = run_all()) {
    if (check_.json) std::fputs("null\n", stdout);  // Nothing was judged; what failed stands on stderr.
    return *code;
  }
  steps_.say("verdict");
  const verify::Report report = verify::verify_resume(recorder::Reader(store_.folder()), check_.group);
  const std::string text = check_.json ? verify::to_json(report) : verify::to_text(report, wants_color(STDOUT_FILENO));
  const int code = tell(report, text, store_.folder(), &store_);
  if (!check_.quiet) {
    std::fprintf(stderr, "samerun: resume check %s took %.1f s\n", check_.group.c_str(), static_cast<double>(monotonic_now_ns() - begin_ns) * 1e-9);
  }
  return code;
}

}  // namespace

int check_resume(const ResumeCheck& check, recorder::Store& store) {
  return ResumeSession(check, store).run();
}

int run_resume_check(const ResumeCheckOptions& options) {
  const RunSettings settings = resolve_run(options, 2);
  parse_points(options.points);  // These before a record is made.
  resolve_program(options.command.front());
  recorder::Store store(settings.record_dir.value());
  ResumeCheck check{options.command,         settings, new_group(), {}, options.steps.value_or(0), options.points, options.json, options.quiet,
                    options.keep_checkpoints};
  if (!options.quiet) {
    std::fprintf(stderr, "samerun: resume check %s: %s, record %s\n", check.group.c_str(), settings.text().c_str(),
                 with_origin(settings.record_dir.value(), settings.record_dir.origin()).c_str());
  }
  return check_resume(check, store);
}

}  // namespace samerun::cli
