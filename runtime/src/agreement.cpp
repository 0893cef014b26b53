#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cstring>

#include "communicator.h"
#include "samerun/core/error.h"

namespace samerun::detail {

std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text) {
  auto size = at::zeros({1}, at::kLong);
  size.data_ptr<std::int64_t>()[0] = static_cast<std::int64_t>(text.size());
  const auto sizes = communicator.all_gather(size);
  std::int64_t most = 1;
  for (const auto& each : sizes) most = std::max(most, each.data_ptr<std::int64_t>()[0]);
  auto padded = at::zeros({most}, at::kByte);
  std::memcpy(padded.data_ptr(), text.data(), text.size());
  const auto gathered = communicator.all_gather(padded);
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < gathered.size(); ++r) {
    texts.emplace_back(static_cast<const char*>(gathered[r].data_ptr()), static_cast<std::size_t>(sizes[r].data_ptr<std::int64_t>()[0]));
  }
  return texts;
}

namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

void compare(const std::string& what, const std::vector<std::string>& first, const std::vector<std::string>& other, int other_rank, int rank) {
  const auto count = std::max(first.size(), other.size());
  for (std::size_t i = 0; i < count; ++i) {
    const auto a = i < first.size() ? first[i] : std::string("(nothing)");
    const auto b = i < other.size() ? other[i] : std::string("(nothing)");
    if (a == b) continue;
    throw Error(ErrorCode::kRendezvous,
                what + " differ over ranks: rank 0 has '" + a + "', rank " + std::to_string(other_rank) + " has '" + b +
                    "'; every rank must run the same program with the same settings",
                {}, rank);
  }
}

}  // namespace

void require_agreement(Communicator& communicator, const std::string& what, const std::vector<std::string>& lines) {
  if (communicator.world_size() == 1) return;
  std::string text;
  for (const auto& line : lines) text += line + "\n";
  const auto texts = gather_texts(communicator, text);
  const auto first = split_lines(texts[0]);
  for (std::size_t r = 1; r < texts.size(); ++r) compare(what, first, split_lines(texts[r]), static_cast<int>(r), communicator.rank());
}

}  // namespace samerun::detail
