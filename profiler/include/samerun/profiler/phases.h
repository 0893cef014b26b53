#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "samerun/core/clock.h"
#include "samerun/core/observer.h"

/// Where the time of a step and of a run goes. What each part is and is not: CATEGORIES.md.
namespace samerun::profiler {

/// A part of a step: its name for readers, and where it stands in a Phase.
struct Part {
  const char* name;
  std::int64_t Phase::*ns;
};

/// In the order in which they are shown. The last is what no span covers; together they are Phase::wall_ns.
inline constexpr std::array<Part, 8> kParts{{{"data wait", &Phase::data_ns},
                                             {"compute", &Phase::compute_ns},
                                             {"exposed communication", &Phase::exposed_ns},
                                             {"optimizer", &Phase::optimizer_ns},
                                             {"checkpoint", &Phase::checkpoint_ns},
                                             {"evaluation", &Phase::evaluation_ns},
                                             {"recording", &Phase::recording_ns},
                                             {"other", &Phase::other_ns}}};

/// Names of RunPhase, in the order of a run. They cover a rank's time from RankStart to RunEnd without a gap.
namespace run_phase {
inline constexpr const char* kSetUp = "set-up";
inline constexpr const char* kTraining = "training";
inline constexpr const char* kEvaluation = "evaluation";
inline constexpr const char* kCheckpoints = "checkpoints";
}  // namespace run_phase

/// Cuts the time line of spans into steps, and at the run's end into the run's parts; tells `observers` on_phase and
/// on_run_phase. A step's row is told once no span can reach into the step any more: the span in which on_step() is called is
/// told after it. Threads: the training thread.
class PhaseTimer final : public RunObserver {
 public:
  /// `observers` owns this and outlives it. `now_ns`: CLOCK_MONOTONIC, the clock of the spans.
  explicit PhaseTimer(ObserverList& observers, std::function<std::int64_t()> now_ns = monotonic_now_ns);

  std::string name() const override { return "profiler"; }
  void on_rank_start(const RankStart& start) override;
  void on_span(const Span& span) override;
  void on_step(const Step& step) override;
  void on_run_end(const RunEnd& end) override;

 private:
  struct Row {
    Phase phase;
    std::int64_t begin_ns = 0, end_ns = 0;
  };
  /// Evaluation and checkpoints, which are no part of set-up and training though they happen within them.
  struct Apart {
    std::int64_t evaluation_ns = 0, checkpoint_ns = 0;
    std::int64_t total_ns() const { return evaluation_ns + checkpoint_ns; }
  };
  void finish_row();

  ObserverList& observers_;
  std::function<std::int64_t()> now_ns_;
  std::int64_t start_ns_ = 0;
  std::optional<std::int64_t> training_ns_;  ///< When the first batch was waited for.
  Apart in_set_up_, in_training_;
  Row current_;               ///< The step under way.
  std::optional<Row> ended_;  ///< The step that ended last, while a span may still reach into it.
};

}  // namespace samerun::profiler
