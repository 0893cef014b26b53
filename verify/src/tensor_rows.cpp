#include "tensor_rows.h"

#include <set>

#include "samerun/core/stream.h"

namespace samerun::verify {
namespace {

struct Enough {};  // ends a stream early; the reader's statement is closed on the way out

}  // namespace

int Names::id(const std::string& name) {
  const auto [entry, is_new] = ids_.try_emplace(name, static_cast<int>(names_.size()));
  if (is_new) names_.push_back(name);
  return entry->second;
}

void visit_tensors(const recorder::Reader& reader, std::int64_t run, const std::string& stage, const TensorVisit& visit) {
  try {
    reader.tensors(run, stage, [&visit](const recorder::TensorRow& row) {
      if (!visit(row)) throw Enough{};
    });
  } catch (const Enough&) {
  }
}

std::map<std::string, TensorFact> tensor_facts(const recorder::Reader& reader, std::int64_t run, const std::string& stage) {
  std::map<std::string, TensorFact> facts;
  std::int64_t first_step = 0;
  visit_tensors(reader, run, stage, [&](const recorder::TensorRow& row) {
    if (row.rank != 0) return true;
    if (facts.empty()) first_step = row.trace.step;
    if (row.trace.step != first_step) return false;
    facts.try_emplace(row.trace.name, TensorFact{row.trace.dtype, row.trace.shape, row.trace.numel});
    return true;
  });
  return facts;
}

std::vector<TensorDifference> rank_differences(const recorder::Reader& reader, std::int64_t run, const std::string& stage, std::int64_t step) {
  std::map<std::string, Digest> of_first;
  std::vector<recorder::TensorRow> others;
  visit_tensors(reader, run, stage, [&](const recorder::TensorRow& row) {
    if (row.trace.step > step) return false;
    if (row.trace.step < step) return true;
    if (row.rank == 0) {
      of_first.try_emplace(row.trace.name, row.trace.digest);
    } else {
      others.push_back(row);
      others.back().trace.sketch.clear();
    }
    return true;
  });
  std::vector<TensorDifference> differences;
  for (const auto& row : others) {
    const auto first = of_first.find(row.trace.name);
    if (first == of_first.end() || first->second != row.trace.digest) differences.push_back({row.trace.name, row.rank, step});
  }
  return differences;
}

bool all_zero(const recorder::Reader& reader, std::int64_t run, const std::string& stage) {
  bool any = false, zero = true;
  visit_tensors(reader, run, stage, [&](const recorder::TensorRow& row) {
    any = true;
    zero = row.trace.norm == 0;
    return zero;
  });
  return any && zero;
}

bool ZeroDigests::is_zero(const TensorTrace& trace) {
  const std::int64_t element = trace.dtype == "float64" ? 8 : trace.dtype == "float32" ? 4 : 2;
  const auto [entry, is_new] = by_bytes_.try_emplace(element * trace.numel);
  if (is_new) {
    const std::vector<std::uint8_t> zeros(static_cast<std::size_t>(element * trace.numel));
    entry->second = digest_bytes(zeros.data(), zeros.size());
  }
  return entry->second == trace.digest;
}

Folded fold_sketch(const std::vector<double>& sketch) {
  // long double keeps the fold's own rounding below one unit of the result
  std::array<long double, 16> sums{};
  for (std::size_t i = 0; i < sketch.size(); ++i) {
    const bool minus = (counter_random(0x5a3e, i) & 1) != 0;
    sums[i % sums.size()] += minus ? -static_cast<long double>(sketch[i]) : static_cast<long double>(sketch[i]);
  }
  Folded folded{};
  for (std::size_t i = 0; i < folded.size(); ++i) folded[i] = static_cast<double>(sums[i]);
  return folded;
}

}  // namespace samerun::verify
