#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace samerun {

/// How a metric over a data set comes from its samples. A metric that is no sum over samples (F1, AUC, precision, recall, perplexity of
/// a corpus, ...) must not be averaged over batches or ranks: it is computed once, from all samples.
class MetricRule {
 public:
  /// Value: function of all rows, float64 [N, columns], in order of sample id.
  using Function = std::function<double(const at::Tensor& rows)>;

  static MetricRule sum();                            ///< Sum of one value a sample.
  static MetricRule mean();                           ///< Their mean: sum and count.
  static MetricRule weighted_mean();                  ///< Rows of (value, weight): sum of value * weight over sum of weights.
  static MetricRule f1_macro();                       ///< Rows of (predicted class, true class): unweighted mean over classes of their F1.
  static MetricRule from_samples(Function function);  ///< Any other. The record keeps the rows, not the function.

  const std::string& word() const { return word_; }  ///< "sum", "mean", "weighted-mean", "f1-macro", "samples".
  const Function& function() const { return function_; }

 private:
  explicit MetricRule(std::string word, Function function = nullptr) : word_(std::move(word)), function_(std::move(function)) {}
  std::string word_;
  Function function_;
};

}  // namespace samerun
