#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "findings.h"
#include "pair_record.h"

// Two runs that were asked for the same, on as many ranks: every row equal, bit for bit.
namespace samerun::verify {

/// The part of a run that is compared.
struct RowRange {
  std::int64_t first = 0;   ///< Optimizer step.
  std::int64_t done = 0;    ///< Rounds of that step's window that lie before.
  std::int64_t end = 0;     ///< Optimizer step after the last; what the other run did from there on is no matter.
  bool to_the_end = false;  ///< Both runs ended at `end` by plan: evaluations and metrics of the one are all in the other.
};

struct RowCounts {
  std::int64_t steps = 0, batches = 0, metrics = 0;  ///< Compared; of all ranks.
};

/// Compares what `run` did in `range` with what `reference` did there: batches, steps, hyperparameters, metrics. Names the
/// tensors from the first step at which a stage differs.
class RunRows {
 public:
  RunRows(const recorder::Reader& reader, const RunData& run, const RunData& reference, const RowRange& range)
      : reader_(reader), run_(run), reference_(reference), range_(range) {}

  /// `unrepeatable`: logged metrics that are not compared.
  RowCounts compare(Findings& findings, const std::set<std::string>& unrepeatable);
  /// Logged metrics that `run` has with other values: nothing that a program logs need repeat itself, such as a time.
  std::set<std::string> unlike_metrics() const;

 private:
  void compare_shards(Findings& findings);
  void compare_steps(Findings& findings);
  void compare_groups(Findings& findings) const;
  void compare_metrics(Findings& findings, const std::set<std::string>& unrepeatable);
  void compare_step(const Step& step, const Step& reference, int rank, Findings& findings);
  void compare_numbers(const Step& step, const Step& reference, int rank, Findings& findings) const;
  void compare_roots(const Step& step, const Step& reference, int rank, Findings& findings);
  void missing(Findings& findings, const char* stage, std::int64_t step, int rank, const std::string& what) const;
  bool in_range(std::int64_t step) const { return step >= range_.first && step < range_.end; }

  const recorder::Reader& reader_;
  const RunData& run_;
  const RunData& reference_;
  RowRange range_;
  RowCounts counts_;
  std::set<std::string> named_;  ///< Stages whose tensors were named: later steps only repeat it.
};

/// Tensors of a stage whose digests differ between two runs at `step` on `rank`; none where the record kept no rows.
std::vector<std::string> unequal_tensors(const recorder::Reader& reader, std::int64_t run, std::int64_t reference, const std::string& stage,
                                         std::int64_t step, int rank);

}  // namespace samerun::verify
