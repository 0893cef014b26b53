#include "samerun/profiler/phases.h"

#include <algorithm>
#include <utility>

namespace samerun::profiler {
namespace {

std::int64_t Phase::*part_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::kDataWait:
      return &Phase::data_ns;
    case SpanKind::kCompute:
      return &Phase::compute_ns;
    case SpanKind::kExposed:
      return &Phase::exposed_ns;
    case SpanKind::kOptimizer:
      return &Phase::optimizer_ns;
    case SpanKind::kCheckpoint:
      return &Phase::checkpoint_ns;
    case SpanKind::kEvaluation:
      return &Phase::evaluation_ns;
    case SpanKind::kRecording:
      return &Phase::recording_ns;
  }
  return &Phase::other_ns;
}

}  // namespace

PhaseTimer::PhaseTimer(ObserverList& observers, std::function<std::int64_t()> now_ns) : observers_(observers), now_ns_(std::move(now_ns)) {}

void PhaseTimer::on_rank_start(const RankStart& start) {
  start_ns_ = start.monotonic_ns;
}

void PhaseTimer::on_span(const Span& span) {
  // Only a training loader's wait is a data wait: the first one begins the training.
  if (!training_ns_ && span.kind == SpanKind::kDataWait) training_ns_ = current_.begin_ns = span.begin_ns;
  auto& apart = training_ns_ ? in_training_ : in_set_up_;
  if (span.kind == SpanKind::kEvaluation) apart.evaluation_ns += span.end_ns - span.begin_ns;
  if (span.kind == SpanKind::kCheckpoint) apart.checkpoint_ns += span.end_ns - span.begin_ns;
  if (!training_ns_) return;
  const auto part = part_of(span.kind);
  const auto cut_ns = ended_ ? std::clamp(ended_->end_ns, span.begin_ns, span.end_ns) : span.begin_ns;
  if (ended_) ended_->phase.*part += cut_ns - span.begin_ns;
  current_.phase.*part += span.end_ns - cut_ns;
  if (ended_ && span.end_ns >= ended_->end_ns) finish_row();
}

void PhaseTimer::on_step(const Step& step) {
  finish_row();
  if (!training_ns_) return;
  current_.phase.step = step.step;
  current_.end_ns = now_ns_();
  ended_ = std::exchange(current_, Row{{}, current_.end_ns, 0});
}

void PhaseTimer::finish_row() {
  if (!ended_) return;
  auto phase = ended_->phase;
  phase.wall_ns = ended_->end_ns - ended_->begin_ns;
  phase.other_ns = phase.wall_ns;
  for (const auto& part : kParts) {
    if (part.ns != &Phase::other_ns) phase.other_ns -= phase.*part.ns;
  }
  ended_.reset();
  observers_.on_phase(phase);
}

void PhaseTimer::on_run_end(const RunEnd&) {
  finish_row();
  const auto end_ns = now_ns_();
  const auto training_ns = training_ns_.value_or(end_ns);
  observers_.on_run_phase({run_phase::kSetUp, training_ns - start_ns_ - in_set_up_.total_ns()});
  observers_.on_run_phase({run_phase::kTraining, end_ns - training_ns - in_training_.total_ns()});
  observers_.on_run_phase({run_phase::kEvaluation, in_set_up_.evaluation_ns + in_training_.evaluation_ns});
  observers_.on_run_phase({run_phase::kCheckpoints, in_set_up_.checkpoint_ns + in_training_.checkpoint_ns});
}

}  // namespace samerun::profiler
