#include "state_tree.h"

#include <torch/types.h>

#include <cstdio>
#include <cstdlib>

#include "capture.h"
#include "samerun/core/error.h"

namespace samerun::detail {

Digest Leaf::digest() const {
  return tensor.defined() ? digest_of(tensor) : digest_text(text);
}

void StateTree::set(const std::string& path, at::Tensor tensor, bool per_rank) {
  leaves[path] = {tensor.detach().to(at::kCPU), "", per_rank};  // itself where it is there already
}
void StateTree::set(const std::string& path, std::string text, bool per_rank) {
  leaves[path] = {{}, std::move(text), per_rank};
}
void StateTree::set(const std::string& path, double value, bool per_rank) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  set(path, std::string(text), per_rank);
}

const Leaf& StateTree::leaf(const std::string& path) const {
  const auto found = leaves.find(path);
  if (found == leaves.end()) throw Error(ErrorCode::kCheckpoint, "the checkpoint lacks the leaf " + path);
  return found->second;
}

const at::Tensor& StateTree::tensor(const std::string& path) const {
  const auto& found = leaf(path);
  if (!found.tensor.defined()) throw Error(ErrorCode::kCheckpoint, "the checkpoint's leaf " + path + " is not a tensor");
  return found.tensor;
}

const std::string& StateTree::text(const std::string& path) const {
  const auto& found = leaf(path);
  if (found.tensor.defined()) throw Error(ErrorCode::kCheckpoint, "the checkpoint's leaf " + path + " is not a text");
  return found.text;
}

std::int64_t StateTree::integer(const std::string& path) const {
  const auto& word = text(path);
  char* end = nullptr;
  const auto value = std::strtoll(word.c_str(), &end, 10);
  if (word.empty() || *end != '\0') throw Error(ErrorCode::kCheckpoint, "the checkpoint's leaf " + path + " is not a whole number", {{"text", word}});
  return value;
}

double StateTree::number(const std::string& path) const {
  const auto& word = text(path);
  char* end = nullptr;
  const auto value = std::strtod(word.c_str(), &end);
  if (word.empty() || *end != '\0') throw Error(ErrorCode::kCheckpoint, "the checkpoint's leaf " + path + " is not a number", {{"text", word}});
  return value;
}

std::vector<std::pair<std::string, const Leaf*>> StateTree::below(const std::string& prefix) const {
  std::vector<std::pair<std::string, const Leaf*>> found;
  for (auto at = leaves.lower_bound(prefix); at != leaves.end() && at->first.starts_with(prefix); ++at)
    found.emplace_back(at->first.substr(prefix.size()), &at->second);
  return found;
}

LeafDigests digests_of(const StateTree& tree) {
  LeafDigests digests;
  for (const auto& [path, leaf] : tree.leaves) digests[path] = leaf.digest();
  return digests;
}

std::optional<std::string> first_difference(const LeafDigests& saved, const LeafDigests& live, std::string_view prefix) {
  for (const auto& [path, digest] : saved) {
    if (!path.starts_with(prefix)) continue;
    const auto found = live.find(path);
    if (found == live.end()) return "leaf " + path + " is lost";
    if (found->second != digest) return "leaf " + path + " has another value";
  }
  for (const auto& item : live) {
    if (item.first.starts_with(prefix) && saved.count(item.first) == 0) return "leaf " + item.first + " was never saved";
  }
  return std::nullopt;
}

}  // namespace samerun::detail
