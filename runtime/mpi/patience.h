#pragma once

namespace samerun::detail {

/// How the worker waits between two looks at MPI. It shares the rank's cores with what computes, so it soon gives its core away, and soon sleeps.
/// Where cores are free it looks without pause for a while first: a sleep costs more than a small reduction takes.
class Patience {
 public:
  explicit Patience(bool spins) : spins_(spins) {}
  void pause();
  /// Something moved.
  void reset() { looks_ = 0; }

 private:
  bool spins_;
  int looks_ = 0;
};

}  // namespace samerun::detail
