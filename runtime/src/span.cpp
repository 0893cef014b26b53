#include "span.h"

#include <algorithm>

#include "samerun/core/clock.h"

namespace samerun::detail {

void SpanClock::emit(const Open& open, std::int64_t end_ns) {
  if (end_ns > open.begin_ns) observers_.on_span({open.kind, open.begin_ns, end_ns});
}

bool SpanClock::holds(SpanKind kind) const {
  return std::any_of(open_.begin(), open_.end(), [kind](const Open& open) { return open.kind == kind; });
}

void SpanClock::open(SpanKind kind) {
  const auto now = observers_.empty() ? 0 : monotonic_now_ns();
  if (!open_.empty()) emit(open_.back(), now);
  open_.push_back({kind, now});
}

void SpanClock::close() {
  if (open_.empty()) return;
  const auto now = observers_.empty() ? 0 : monotonic_now_ns();
  emit(open_.back(), now);
  open_.pop_back();
  if (!open_.empty()) open_.back().begin_ns = now;
}

void SpanClock::open_compute() {
  while (holds(SpanKind::kEvaluation) || holds(SpanKind::kCompute)) close();
  open(SpanKind::kCompute);
}

void SpanClock::close_compute() {
  if (!open_.empty() && open_.back().kind == SpanKind::kCompute) close();
}

void SpanClock::open_evaluation() {
  if (!holds(SpanKind::kEvaluation)) open(SpanKind::kEvaluation);
}

void SpanClock::close_evaluation() {
  if (!open_.empty() && open_.back().kind == SpanKind::kEvaluation) close();
}

}  // namespace samerun::detail
