#include "samerun/core/metric_math.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "samerun/core/error.h"

namespace samerun {
namespace {

[[noreturn]] void refuse(const std::string& message, Error::Context context = {}) {
  throw Error(ErrorCode::kInvalidArgument, message, std::move(context));
}

struct ClassCounts {
  std::int64_t hits = 0, false_hits = 0, misses = 0;
};

/// Rows of (prediction, label).
MetricResult f1_macro(std::span<const double> values) {
  std::map<double, ClassCounts> classes;
  for (std::size_t i = 0; i + 1 < values.size(); i += 2) {
    const double prediction = values[i], label = values[i + 1];
    if (std::isnan(prediction) || std::isnan(label)) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      return {nan, nan, nan, 0};
    }
    if (prediction == label) {
      classes[label].hits += 1;
    } else {
      classes[prediction].false_hits += 1;
      classes[label].misses += 1;
    }
  }
  MetricResult result;
  for (const auto& [unused, counts] : classes)
    result.numerator += 2 * static_cast<double>(counts.hits) / static_cast<double>(2 * counts.hits + counts.false_hits + counts.misses);
  result.denominator = static_cast<double>(classes.size());
  result.value = result.numerator / result.denominator;
  return result;
}

MetricResult sum_or_mean(std::string_view rule, std::int64_t columns, const std::vector<std::size_t>& order, std::span<const double> values) {
  const bool weighted = rule == metric_rule::kWeightedMean;
  MetricResult result;
  for (const auto row : order) {
    const auto* at = values.data() + row * static_cast<std::size_t>(columns);
    result.numerator += weighted ? at[0] * at[1] : at[0];
    result.denominator += weighted ? at[1] : 1.0;
  }
  result.value = rule == metric_rule::kSum ? result.numerator : result.numerator / result.denominator;
  return result;
}

}  // namespace

std::int64_t metric_columns(std::string_view rule) {
  if (rule == metric_rule::kSum || rule == metric_rule::kMean) return 1;
  if (rule == metric_rule::kWeightedMean || rule == metric_rule::kF1Macro) return 2;
  if (rule == metric_rule::kSamples) return 0;
  refuse("'" + std::string(rule) + "' is no rule of a metric; known are sum, mean, weighted-mean, f1-macro and samples");
}

std::vector<std::size_t> sample_order(std::span<const std::int64_t> ids) {
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [ids](std::size_t a, std::size_t b) { return ids[a] < ids[b]; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (ids[order[i]] == ids[order[i - 1]])
      refuse("a sample was given twice to one metric; each sample counts once", {{"sample", std::to_string(ids[order[i]])}});
  }
  return order;
}

MetricResult metric_of(std::string_view rule, std::int64_t columns, std::span<const std::int64_t> ids, std::span<const double> values) {
  const auto wanted = metric_columns(rule);
  if (wanted == 0) refuse("a metric by a function of the program cannot be computed from its rows alone");
  if (columns != wanted || values.size() != ids.size() * static_cast<std::size_t>(columns))
    refuse("the rows of a metric do not fit its rule", {{"rule", std::string(rule)},
                                                        {"columns", std::to_string(columns)},
                                                        {"samples", std::to_string(ids.size())},
                                                        {"values", std::to_string(values.size())}});
  const auto order = sample_order(ids);
  auto result = rule == metric_rule::kF1Macro ? f1_macro(values) : sum_or_mean(rule, columns, order, values);
  result.rows = static_cast<std::int64_t>(ids.size());
  return result;
}

std::string non_additive_word(std::string_view name) {
  static constexpr std::array<std::string_view, 27> kWords{
      "f1",  "fbeta", "fscore", "auc",  "auroc",   "auprc", "precision", "recall", "mcc", "kappa",   "perplexity", "ppl",  "bleu", "rouge",
      "cer", "wer",   "iou",    "miou", "jaccard", "dice",  "rmse",      "median", "r2",  "pearson", "spearman",   "gini", "eer"};
  std::string word;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    const auto letter = i < name.size() ? static_cast<unsigned char>(name[i]) : static_cast<unsigned char>(' ');
    if (std::isalnum(letter) != 0) {
      word += static_cast<char>(std::tolower(letter));
      continue;
    }
    if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) return word;
    word.clear();
  }
  return "";
}

}  // namespace samerun
