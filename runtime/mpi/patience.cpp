#include "patience.h"

#include <sched.h>
#include <time.h>

#include <algorithm>

namespace samerun::detail {
namespace {

constexpr int kSpins = 2000;                            // about 100 us
constexpr int kYields = 20;                             // then a switch of threads each
constexpr long kShortNap = 20'000, kLongNap = 200'000;  // ns

}  // namespace

void Patience::pause() {
  if (waiting_ == Waiting::kSpins) return;
  const int look = looks_++;
  const int spins = waiting_ == Waiting::kLooks ? kSpins : 0;
  if (look < spins) return;
  if (look < spins + kYields) {
    ::sched_yield();
    return;
  }
  looks_ = std::min(looks_, spins + kYields + 1000);
  const timespec nap{0, std::min(kLongNap, kShortNap + 2'000L * (look - spins - kYields))};
  ::nanosleep(&nap, nullptr);
}

}  // namespace samerun::detail
