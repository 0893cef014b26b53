#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The arithmetic of metrics over the samples of a data set: one for the run that computes a metric and for whoever
/// computes it again from the recorded rows. The same rows give the same bits, in whatever order they come.
namespace samerun {

/// Words of MetricRule that have an arithmetic here.
namespace metric_rule {
inline constexpr const char* kSum = "sum";                     ///< Rows of one value.
inline constexpr const char* kMean = "mean";                   ///< Rows of one value.
inline constexpr const char* kWeightedMean = "weighted-mean";  ///< Rows of value and weight.
inline constexpr const char* kF1Macro = "f1-macro";            ///< Rows of predicted and true class, any numbers.
inline constexpr const char* kSamples = "samples";             ///< A function of the program: metric_of() does not know it.
}  // namespace metric_rule

struct MetricResult {
  double value = 0;
  double numerator = 0;    ///< Sum of values, of value * weight, or of the classes' F1.
  double denominator = 0;  ///< Number of rows, sum of weights, or number of classes.
  std::int64_t rows = 0;
};

/// Columns that the rule's rows have; 0: any number ("samples").
/// Throws kInvalidArgument for a word that is no rule.
std::int64_t metric_columns(std::string_view rule);

/// Places of `ids` in ascending order of id. Throws kInvalidArgument naming an id that stands there twice.
std::vector<std::size_t> sample_order(std::span<const std::int64_t> ids);

/// The metric of all rows, taken in order of sample id, in float64. `values`: [ids, columns], row by row.
/// f1-macro: unweighted mean, over the classes that occur among predictions or labels, of 2TP / (2TP + FP + FN).
/// NaN in a row gives NaN; so does a mean of no rows or of weights that sum to 0. Throws kInvalidArgument: unknown rule or
/// "samples", columns that are not the rule's, another number of values, an id twice.
MetricResult metric_of(std::string_view rule, std::int64_t columns, std::span<const std::int64_t> ids, std::span<const double> values);

/// A word in `name` that names a metric which is no average over samples ("val_f1": "f1"); empty where there is none. Words
/// are compared whole, without case; they end at whatever is no letter or digit.
std::string non_additive_word(std::string_view name);

}  // namespace samerun
