#include "curves.h"

#include <algorithm>
#include <limits>

namespace samerun::verify {
namespace {

constexpr std::size_t kMostPoints = 200;
constexpr std::size_t kMostCurves = 64;  // of one arm and stage

double share_of(double value, double limit) {
  if (limit > 0) return value / limit;
  return value > 0 ? std::numeric_limits<double>::infinity() : 0;
}

}  // namespace

double worst_share(const TensorCurve& curve) {
  const std::size_t at = worst_index(curve);
  return at < curve.value.size() ? share_of(curve.value[at], curve.limit[at]) : 0;
}

std::size_t worst_index(const TensorCurve& curve) {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < curve.value.size(); ++i) {
    if (share_of(curve.value[i], curve.limit[i]) > share_of(curve.value[worst], curve.limit[worst])) worst = i;
  }
  return worst;
}

double Curves::share(const Point& point) {
  return share_of(point.value, point.limit);
}

void Curves::add(Line& line, const Point& point) {
  if (!line.points.empty() && line.points.back().step / line.stride == point.step / line.stride) {
    if (share(point) > share(line.points.back())) line.points.back() = point;
  } else {
    line.points.push_back(point);
  }
}

void Curves::see(const Key& key, std::int64_t step, double value, double limit, double norm) {
  Line& line = lines_[key];
  add(line, {step, value, limit, norm});
  while (line.points.size() > kMostPoints) {
    Line coarser{2 * line.stride, {}};
    for (const Point& point : line.points) add(coarser, point);
    line = std::move(coarser);
  }
}

void Curves::move_to(Report& report) {
  std::map<std::pair<std::string, std::string>, std::vector<TensorCurve>> groups;
  for (const auto& [key, line] : lines_) {
    TensorCurve curve{key.tensor, key.stage, key.arm, {}, {}, {}, {}};
    for (const Point& point : line.points) {
      curve.steps.push_back(point.step);
      curve.value.push_back(point.value);
      curve.limit.push_back(point.limit);
      curve.norm.push_back(point.norm);
    }
    groups[{key.arm, key.stage}].push_back(std::move(curve));
  }
  lines_.clear();
  for (auto& [arm_and_stage, curves] : groups) {
    std::stable_sort(curves.begin(), curves.end(), [](const TensorCurve& a, const TensorCurve& b) { return worst_share(a) > worst_share(b); });
    const std::size_t kept = std::min(curves.size(), kMostCurves);
    report.curves_left_out += static_cast<std::int64_t>(curves.size() - kept);
    report.curves.insert(report.curves.end(), curves.begin(), curves.begin() + static_cast<std::ptrdiff_t>(kept));
  }
}

}  // namespace samerun::verify
