#pragma once

#include <cstdint>
#include <vector>

#include "samerun/core/observer.h"

namespace samerun::detail {

/// Times the stretches of the training thread and tells the observers. An inner stretch interrupts the outer one, so spans
/// never overlap; what no stretch covers is nobody's. Without observers it does nothing. Threads: the training thread.
class SpanClock {
 public:
  /// `observers` must outlive the clock.
  explicit SpanClock(ObserverList& observers) : observers_(observers) {}

  void open(SpanKind kind);
  void close();
  /// The stretch from a batch handed over to the end of its backward pass, which no scope encloses. open_compute() also ends
  /// what an evaluation that was left early has open.
  void open_compute();
  void close_compute();
  /// A pass over an evaluation loader, from start to end.
  void open_evaluation();
  void close_evaluation();
  /// What a collective that the program calls is: part of an evaluation, or communication that nothing hides.
  SpanKind collective() const { return holds(SpanKind::kEvaluation) ? SpanKind::kEvaluation : SpanKind::kExposed; }

 private:
  struct Open {
    SpanKind kind;
    std::int64_t begin_ns;
  };
  void emit(const Open& open, std::int64_t end_ns);
  bool holds(SpanKind kind) const;

  ObserverList& observers_;
  std::vector<Open> open_;
};

/// A stretch that a scope encloses.
class SpanTimer {
 public:
  SpanTimer(SpanClock& clock, SpanKind kind) : clock_(clock) { clock_.open(kind); }
  ~SpanTimer() { clock_.close(); }
  SpanTimer(const SpanTimer&) = delete;
  SpanTimer& operator=(const SpanTimer&) = delete;

 private:
  SpanClock& clock_;
};

}  // namespace samerun::detail
