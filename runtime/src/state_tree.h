#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "samerun/core/digest.h"

namespace samerun::detail {

/// One value of the training state: a tensor or a text.
struct Leaf {
  at::Tensor tensor;      ///< Defined: the leaf is a tensor, and `text` is empty.
  std::string text;       ///< Numbers too: whole ones in decimal, others with 17 digits, which give the same bits back.
  bool per_rank = false;  ///< Every rank has its own.

  Digest digest() const;
};

/// The training state by path: "model/NAME", "optimizer/NAME/exp_avg", "optimizer/group0/lr", "scheduler/steps", "position/...",
/// "loader/PURPOSE/...", "rank/generator", "window/...", "user/NAME/KEY". Tensors are on the CPU, and share memory with live
/// objects that are there.
class StateTree {
 public:
  void set(const std::string& path, at::Tensor tensor, bool per_rank = false);
  void set(const std::string& path, std::string text, bool per_rank = false);
  void set(const std::string& path, const char* text, bool per_rank = false) { set(path, std::string(text), per_rank); }
  void set(const std::string& path, std::int64_t value, bool per_rank = false) { set(path, std::to_string(value), per_rank); }
  void set(const std::string& path, double value, bool per_rank = false);

  bool has(const std::string& path) const { return leaves.count(path) != 0; }
  /// Throw kCheckpoint naming the leaf where it is missing or of another kind.
  const at::Tensor& tensor(const std::string& path) const;
  const std::string& text(const std::string& path) const;
  std::int64_t integer(const std::string& path) const;
  double number(const std::string& path) const;
  /// The leaves below `prefix`, which ends in a slash: the rest of the path, and the leaf.
  std::vector<std::pair<std::string, const Leaf*>> below(const std::string& prefix) const;

  std::map<std::string, Leaf> leaves;

 private:
  const Leaf& leaf(const std::string& path) const;
};

/// Digests of all leaves by path.
using LeafDigests = std::map<std::string, Digest>;
LeafDigests digests_of(const StateTree& tree);
/// What differs first between the trees, as "leaf X is lost", "... is new", "... is another"; nullopt where they are equal.
std::optional<std::string> first_difference(const LeafDigests& saved, const LeafDigests& live, std::string_view prefix = "");

}  // namespace samerun::detail
