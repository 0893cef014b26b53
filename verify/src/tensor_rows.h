#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "pair_record.h"

namespace samerun::verify {

/// Small integers for tensor names, so that the rows of long runs stay small.
class Names {
 public:
  int id(const std::string& name);
  const std::string& name(int id) const { return names_[static_cast<std::size_t>(id)]; }
  int size() const { return static_cast<int>(names_.size()); }

 private:
  std::unordered_map<std::string, int> ids_;
  std::vector<std::string> names_;
};

using TensorVisit = std::function<bool(const recorder::TensorRow&)>;  ///< Returns false when it has seen enough.

/// Streams a stage, in the reader's order, until `visit` returns false.
void visit_tensors(const recorder::Reader& reader, std::int64_t run, const std::string& stage, const TensorVisit& visit);

struct TensorFact {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t numel = 0;
};
/// Rank 0's tensors of the first step of `stage`, by name.
std::map<std::string, TensorFact> tensor_facts(const recorder::Reader& reader, std::int64_t run, const std::string& stage);

struct TensorDifference {
  std::string tensor;
  int rank = 0;
  std::int64_t step = 0;
};
/// Tensors of `stage` whose digest on some rank differs from rank 0's at `step`. Empty when the record kept no such rows.
std::vector<TensorDifference> rank_differences(const recorder::Reader& reader, std::int64_t run, const std::string& stage, std::int64_t step);

/// True when every row of the stage has norm 0 (and there are rows).
bool all_zero(const recorder::Reader& reader, std::int64_t run, const std::string& stage);

/// Tells the digest of a gradient of zeros. The norm of local gradients is not recorded.
class ZeroDigests {
 public:
  bool is_zero(const TensorTrace& trace);

 private:
  std::unordered_map<std::int64_t, Digest> by_bytes_;
};

/// A sketch folded to 16 numbers by fixed signs, itself a count-sketch: enough to see that two vectors differ, and small
/// enough to keep one for each tensor and step of a long run.
using Folded = std::array<double, 16>;
Folded fold_sketch(const std::vector<double>& sketch);

}  // namespace samerun::verify
