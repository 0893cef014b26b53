#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "samerun/verify/verify.h"

namespace samerun::verify {

/// Collects what checks measured, tensor by tensor, in a size that does not grow with the length of a run.
class Curves {
 public:
  struct Key {
    std::string tensor, stage, arm;
    auto operator<=>(const Key&) const = default;
  };

  /// One measured distance. Steps of a key ascend.
  void see(const Key& key, std::int64_t step, double value, double limit, double norm);
  /// The curves nearest their limits, and how many are left out.
  void move_to(Report& report);

 private:
  struct Point {
    std::int64_t step = 0;
    double value = 0, limit = 0, norm = 0;
  };
  struct Line {
    std::int64_t stride = 1;  // steps that one point stands for
    std::vector<Point> points;
  };
  static double share(const Point& point);
  static void add(Line& line, const Point& point);

  std::map<Key, Line> lines_;
};

/// The largest value / limit of a curve's steps; infinite where the limit is 0 and the value is not.
double worst_share(const TensorCurve& curve);
/// Index of that step.
std::size_t worst_index(const TensorCurve& curve);

}  // namespace samerun::verify
