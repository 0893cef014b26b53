#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "pair_record.h"
#include "tensor_rows.h"

namespace samerun::verify {

/// One tensor at one step of the float64 runs.
struct Cell {
  bool has_d = false, has_r = false;
  bool equal = false;         ///< The digests are equal; the distance is then 0.
  bool has_distance = false;  ///< Both sketches were kept.
  double distance = 0;        ///< ||D - R||, from the sketches.
  double noise = 0;           ///< Largest ||rerun - R|| of the re-executions.
  double d_norm = 0, r_norm = 0;
  double alpha = 0;  ///< <D - R, R> / <R, R>.
  double share = 0;  ///< Part of the distance that alpha explains, 0 to 1.
};

/// The distances between the float64 runs, step by step. Reads the sketches in slices of a bounded size and keeps only
/// the distances.
class FreeRun {
 public:
  explicit FreeRun(const PairRecord& pair);

  const Names& names() const { return names_; }
  const std::vector<std::int64_t>& steps() const { return steps_; }  ///< Of the reference.
  bool kept(std::size_t step_index) const;                           ///< Both runs kept gradients of this step.
  const Cell* cell(std::size_t step_index, int tensor) const;        ///< Null when no run has a row.
  /// Noise of the step and of the two steps before and after it. One step's re-executions may round alike by luck, in
  /// small tensors above all; the noise of neighbouring steps is of the same size.
  double noise(std::size_t step_index, int tensor) const;

 private:
  struct Kept {
    Digest digest;
    double norm = 0;
    std::vector<double> sketch;
  };
  using Slice = std::map<std::pair<std::size_t, int>, Kept>;

  void read_slice(const PairRecord& pair, std::size_t first, std::size_t end);
  void read_reference(const PairRecord& pair, std::size_t first, std::size_t end, Slice& slice);
  void read_candidate(const PairRecord& pair, std::size_t first, std::size_t end, const Slice& slice);
  void read_rerun(const PairRecord& pair, const RunData& rerun, std::size_t first, std::size_t end, const Slice& slice);
  template <class Use>
  void visit_slice(const PairRecord& pair, std::int64_t run, std::size_t first, std::size_t end, Use use);
  Cell& at(std::size_t step_index, int tensor);

  Names names_;
  std::vector<std::int64_t> steps_;
  std::map<std::int64_t, std::size_t> index_;
  std::vector<std::vector<Cell>> cells_;  // by step, tensor
};

}  // namespace samerun::verify
