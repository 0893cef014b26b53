#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <optional>

#include "metrics.h"
#include "numeric.h"

namespace samerun::verify {
namespace {

// With fewer re-executions the noise is not known.
constexpr std::size_t kFewestReruns = 2;

/// What is compared at one place: a value, or the values of all samples.
struct Point {
  std::vector<std::int64_t> ids;  // empty for a value
  std::vector<double> values;
  std::size_t times = 1;  // a value was logged at this step
};

/// One quantity over the run. `rows`: the samples' values, else the metric's.
struct Series {
  std::string name, purpose;
  bool rows = false;
  auto operator<=>(const Series&) const = default;
};

/// (step, pass), in the order in which a run comes by them.
using Place = std::pair<std::int64_t, std::int64_t>;
using Lines = std::map<Series, std::map<Place, Point>>;

Lines lines_of(const MetricRecords& records) {
  Lines lines;
  for (const auto& [asked, record] : records) {
    const Place place{asked.step, asked.pass};
    // Of values that are logged again at a step the last one stands. One process that replays several ranks goes through
    // the loop once for each of them, and logs as often.
    if (!record.results.empty() && (asked.logged() || record.results.size() == 1))
      lines[{asked.name, asked.purpose, false}][place] = {{}, {record.results.back().metric.value}, record.results.size()};
    if (record.has_rows) lines[{asked.name, asked.purpose, true}][place] = {record.ids, record.values, 1};
  }
  return lines;
}

/// All values that were logged under one name at one step, ascending. From inside the training loop: in the whole run, since a re-execution
/// goes through the ranks' batches of a window in another order, and makes the step after another one of them.
std::map<Asked, Point> all_logged(const MetricRecords& records) {
  std::map<Asked, Point> points;
  for (const auto& [asked, record] : records) {
    if (!asked.logged()) continue;
    const Asked place{asked.name, asked.purpose, -1, asked.purpose.empty() ? asked.step : -1};
    for (const auto& row : record.results) points[place].values.push_back(row.metric.value);
  }
  for (auto& [place, point] : points) std::sort(point.values.begin(), point.values.end());
  return points;
}

bool bitwise_equal(const Point& a, const Point& b) {
  return a.ids == b.ids && std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), same_value);
}

/// nullopt where there is none: other samples, or a value that is not finite.
std::optional<double> distance(const Point& a, const Point& b) {
  if (a.ids != b.ids || a.values.size() != b.values.size()) return std::nullopt;
  double squares = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    if (same_value(a.values[i], b.values[i])) continue;
    squares += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
  }
  return std::isfinite(squares) ? std::optional(std::sqrt(squares)) : std::nullopt;
}

double length(const Point& point) {
  double squares = 0;
  for (const double value : point.values) squares += std::isfinite(value) ? value * value : 0;
  return std::sqrt(squares);
}

// A float64 run may still hand over values that it rounded to float32; there the last bit of those is what rounding moves.
double unit_of(const Point& d, const Point& r) {
  const auto is_float32 = [](double value) {
    return !std::isfinite(value) || (std::abs(value) <= FLT_MAX && static_cast<double>(static_cast<float>(value)) == value);
  };
  const bool all = std::all_of(d.values.begin(), d.values.end(), is_float32) && std::all_of(r.values.begin(), r.values.end(), is_float32);
  return all ? unit_roundoff("float32") : kUnit64;
}

class Compare {
 public:
  Compare(const PairRecord& pair, const Arm& arm, const MetricRecords& d, const MetricRecords& r, Findings& findings, JudgedMetrics& judged)
      : pair_(pair), arm_(arm), d_(lines_of(d)), r_(lines_of(r)), findings_(findings), judged_(judged), float64_(&arm != &pair.native) {}

  void all() {
    if (float64_) read_noise();
    for (const auto& [series, line] : d_) {
      for (const auto& [place, point] : line) {
        const Point* other = find(r_, series, place);
        if (other == nullptr) {
          alone(series, place, arm_.reference, "candidate");
        } else {
          judge(series, place, point, *other);
        }
      }
    }
    for (const auto& [series, line] : r_) {
      for (const auto& [place, point] : line) {
        if (find(d_, series, place) == nullptr) alone(series, place, arm_.candidate, "reference");
      }
    }
  }

 private:
  static const Point* find(const Lines& lines, const Series& series, const Place& place) {
    const auto line = lines.find(series);
    if (line == lines.end()) return nullptr;
    const auto point = line->second.find(place);
    return point == line->second.end() ? nullptr : &point->second;
  }

  static Asked asked(const Series& series, const Place& place) { return {series.name, series.purpose, place.second, place.first}; }

  std::string words(const Series& series, const Place& place) const {
    return (series.rows ? "the samples' values of " : "") + metric_place(asked(series, place), arm_);
  }

  void read_noise() {
    for (const RunData& rerun : pair_.reruns) {
      const Lines lines = lines_of(metric_records(pair_.reader, rerun.id()));
      for (const auto& [series, line] : r_) {
        for (const auto& [place, point] : line) {
          const Point* other = find(lines, series, place);
          if (other == nullptr) continue;
          double& noise = noise_[series][place];
          noise = std::max(noise, distance(point, *other).value_or(0));
        }
      }
    }
  }

  // Of the place and the two before and after it, as for gradients: re-executions may round alike once by luck.
  double noise(const Series& series, const Place& place) const {
    const auto line = noise_.find(series);
    if (line == noise_.end()) return 0;
    auto first = line->second.lower_bound(place);
    for (int i = 0; i < 2 && first != line->second.begin(); ++i) --first;
    double largest = 0;
    for (auto at = first; at != line->second.end(); ++at) {
      if (at->first > place && std::distance(line->second.upper_bound(place), at) >= 2) break;
      largest = std::max(largest, at->second);
    }
    return largest;
  }

  void alone(const Series& series, const Place& place, const RunData& without, const char* with) {
    if (series.rows || !without.whole_record()) return;  // gaps in the rows are found within each run
    const std::string text = words(series, place) + " stands in the " + with + " only";
    if (place.second < 0) return judged_.leave(series.name, "logged by the " + std::string(with) + " only");
    findings_.add({{}, Verdict::kDifferent, at::kMetric, series.name, place.first, -1, 0, 0, text}, "alone");
  }

  void judge(const Series& series, const Place& place, const Point& d, const Point& r) {
    if (d.ids != r.ids) return judged_.leave(series.name, "over other samples in the reference");
    if (!series.rows && judged_.wrong.count(asked(series, place)) != 0) return;  // found already
    if (bitwise_equal(d, r)) return found_equal(series, d);
    if (place.second < 0 && !series.purpose.empty())
      return judged_.leave(series.name, "logged inside the training loop, where a replay has one rank's batch");
    if (d.times != r.times) {
      // From inside the loop over batches. One process that replays several ranks has another batch in hand then.
      return judged_.leave(series.name, "logged another number of times a step by the reference");
    }
    if (from_equal_rows(series, place)) return differs(series, place, d, r, 0, ", from samples' values that are the same");
    if (float64_) {
      in_float64(series, place, d, r);
    } else {
      natively(series, place, d, r);
    }
  }

  // Every rule makes an equal value of equal rows, one that only the program knows too.
  bool from_equal_rows(const Series& series, const Place& place) const {
    if (series.rows || place.second < 0) return false;
    const Series rows{series.name, series.purpose, true};
    const Point *d = find(d_, rows, place), *r = find(r_, rows, place);
    return d != nullptr && r != nullptr && bitwise_equal(*d, *r);
  }

  void found_equal(const Series& series, const Point& d) {
    if (series.rows) return;                                                                             // of a metric its value is asked for
    if (!std::isfinite(d.values.front())) return judged_.leave(series.name, "not finite in both runs");  // shows nothing
    ++(float64_ ? judged_.in_float64 : judged_.bitwise);
    judged_.judged.insert(series.name);
  }

  void in_float64(const Series& series, const Place& place, const Point& d, const Point& r) {
    const auto off = distance(d, r);
    if (!off) return differs(series, place, d, r, 0, ": not finite in one run only");
    const double unit = unit_of(d, r), scale = std::max(length(d), length(r)), band = noise(series, place);
    const double limit = kBandFactor * std::max(band, unit * length(r));
    if (kBandFactor * band > std::max(kDecided, kBandFactor * unit) * scale) {
      return judged_.leave(series.name, "re-executions of the reference move it by " + number(band));
    }
    if (*off <= limit) {
      judged_.closest.see(*off, limit, series.name + ", step " + std::to_string(place.first));
      return found_equal(series, d);
    }
    if (pair_.reruns.size() < kFewestReruns) return judged_.leave(series.name, "no re-executions tell how large rounding is");
    differs(series, place, d, r, limit, "");
  }

  // In the program's own precision the runs part by rounding; what comes before they do is equal in every bit.
  void natively(const Series& series, const Place& place, const Point& d, const Point& r) {
    if (!pair_.same_micro_batches) return judged_.leave(series.name, "batches of other sizes, and no float64 runs");
    if (place.first > equal_steps()) return judged_.leave(series.name, "not at a step where both runs are in one state, and no float64 runs");
    // How a logged value came about is not known: a sum over ranks may be rounded in another order.
    if (place.second < 0) return judged_.leave(series.name, "logged, other bits at one state, and no float64 runs");
    differs(series, place, d, r, 0, ", though the states are equal bit for bit");
  }

  /// Number of leading steps after each of which both runs are in one state; -1: they begin in different ones.
  std::int64_t equal_steps() {
    if (equal_steps_) return *equal_steps_;
    const auto of_d = arm_.candidate.first_rank_steps(), of_r = arm_.reference.first_rank_steps();
    std::int64_t equal = -1;
    for (std::size_t i = 0; i < std::min(of_d.size(), of_r.size()); ++i) {
      if (of_d[i]->step != of_r[i]->step || of_d[i]->root_before == Digest{} || of_d[i]->root_before != of_r[i]->root_before) break;
      equal = of_d[i]->step;
      if (of_d[i]->root_after != of_r[i]->root_after) break;
      ++equal;
    }
    equal_steps_ = equal;
    return equal;
  }

  void differs(const Series& series, const Place& place, const Point& d, const Point& r, double limit, const std::string& why) {
    judged_.judged.insert(series.name);
    const double off = distance(d, r).value_or(std::nan(""));
    std::string text = words(series, place);
    if (series.rows) {
      std::vector<std::string> samples;
      for (std::size_t i = 0; i < d.ids.size(); ++i) {
        const auto columns = d.values.size() / d.ids.size();
        const auto first = static_cast<std::ptrdiff_t>(i * columns), end = first + static_cast<std::ptrdiff_t>(columns);
        if (!std::equal(d.values.begin() + first, d.values.begin() + end, r.values.begin() + first, same_value))
          samples.push_back(std::to_string(d.ids[i]));
      }
      text += " are not the reference's (samples " + some_names(samples, 5) + ")";
    } else {
      text += " is " + exact_number(d.values.front()) + ", the reference's " + exact_number(r.values.front());
    }
    if (place.second < 0) text += "; logged, from one rank's batches? (metric() takes all ranks' samples)";
    if (limit > 0) text += ": off by " + number(off) + ", allowed are " + number(limit);
    findings_.add({{}, Verdict::kDifferent, at::kMetric, series.name, place.first, -1, off, limit, text + why}, series.rows ? "rows" : "value");
  }

  const PairRecord& pair_;
  const Arm& arm_;
  const Lines d_, r_;
  Findings& findings_;
  JudgedMetrics& judged_;
  const bool float64_;
  std::map<Series, std::map<Place, double>> noise_;
  std::optional<std::int64_t> equal_steps_;
};

}  // namespace

std::optional<std::set<std::string>> moving_metrics(const PairRecord& pair) {
  if (!pair.shadow || pair.reruns.empty()) return std::nullopt;
  const auto of_reference = all_logged(metric_records(pair.reader, pair.shadow->reference.id()));
  std::set<std::string> moving;
  for (const RunData& rerun : pair.reruns) {
    for (const auto& [place, point] : all_logged(metric_records(pair.reader, rerun.id()))) {
      const auto other = of_reference.find(place);
      if (other == of_reference.end() || bitwise_equal(point, other->second)) continue;
      if (!(distance(point, other->second).value_or(INFINITY) <= kDecided * length(other->second))) moving.insert(place.name);
    }
  }
  return moving;
}

void compare_logged_over_ranks(const Arm& arm, const MetricRecords& d, const std::set<std::string>& moving, Findings& findings,
                               JudgedMetrics& judged) {
  for (const auto& [asked, record] : d) {
    if (!asked.logged() || record.results.empty() || moving.count(asked.name) != 0) continue;
    for (const auto& [rank, values] : record.others) {
      for (std::size_t i = 0; i < std::min(values.size(), record.results.size()); ++i) {
        const double first = record.results[i].metric.value;
        // Ranks may come to one value by different orders of a sum, in float32.
        const double limit = kBandFactor * unit_roundoff("float32") * std::abs(first);
        if (same_value(first, values[i]) || std::abs(first - values[i]) <= limit) continue;
        judged.judged.insert(asked.name);
        findings.add({{},
                      Verdict::kDifferent,
                      at::kMetric,
                      asked.name,
                      asked.step,
                      rank,
                      std::abs(first - values[i]),
                      limit,
                      metric_place(asked, arm) + " is logged as " + exact_number(first) + " by rank 0 and as " + exact_number(values[i]) +
                          " by rank " + std::to_string(rank) + ": a value of one rank's batches (metric() takes all ranks' samples)"},
                     "over ranks");
      }
    }
  }
}

void compare_metrics(const PairRecord& pair, const Arm& arm, const MetricRecords& d, const MetricRecords& r, Findings& findings,
                     JudgedMetrics& judged) {
  Compare(pair, arm, d, r, findings, judged).all();
}

}  // namespace samerun::verify
