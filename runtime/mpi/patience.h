#pragma once

namespace samerun::detail {

/// Who waits for MPI, and for how long without giving its core away.
enum class Waiting {
  kYields,  ///< At once: others need the core.
  kLooks,   ///< After some 100 us: a switch of threads costs more than a small reduction takes.
  kSpins,   ///< Never.
};

/// How the worker waits between two looks at MPI. It shares the rank's cores with what computes, so it gives its core away, and soon sleeps.
class Patience {
 public:
  explicit Patience(Waiting waiting) : waiting_(waiting) {}
  void pause();
  /// Something moved.
  void reset() { looks_ = 0; }

 private:
  Waiting waiting_;
  int looks_ = 0;
};

}  // namespace samerun::detail
