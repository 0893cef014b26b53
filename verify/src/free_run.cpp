#include "free_run.h"

#include <algorithm>
#include <cmath>

#include "samerun/core/sketch.h"

namespace samerun::verify {
namespace {

// Sketches of the reference that are held at a time.
constexpr std::int64_t kSliceBytes = 64 << 20;

std::int64_t bytes_of_step(const PairRecord& pair) {
  std::int64_t bytes = 1;
  for (const auto& [name, fact] : tensor_facts(pair.reader, pair.shadow->reference.id(), stage::kRaw)) {
    bytes += std::min(fact.numel, kSketchSize) * static_cast<std::int64_t>(sizeof(double)) + 128;
  }
  return bytes;
}

double distance_between(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// alpha, and how much of the difference lies along R.
void common_scale(const std::vector<double>& d, const std::vector<double>& r, Cell& cell) {
  double along = 0, length = 0;
  for (std::size_t i = 0; i < d.size(); ++i) along += (d[i] - r[i]) * r[i], length += r[i] * r[i];
  if (length <= 0) return;
  cell.alpha = along / length;
  cell.share = cell.distance > 0 ? std::abs(cell.alpha) * std::sqrt(length) / cell.distance : 0;
}

}  // namespace

FreeRun::FreeRun(const PairRecord& pair) {
  for (const Step* step : pair.shadow->reference.first_rank_steps()) {
    index_[step->step] = steps_.size();
    steps_.push_back(step->step);
  }
  cells_.resize(steps_.size());
  const auto slice = static_cast<std::size_t>(std::max<std::int64_t>(1, kSliceBytes / bytes_of_step(pair)));
  for (std::size_t first = 0; first < steps_.size(); first += slice) read_slice(pair, first, std::min(first + slice, steps_.size()));
}

bool FreeRun::kept(std::size_t step_index) const {
  const auto& row = cells_[step_index];
  return std::any_of(row.begin(), row.end(), [](const Cell& c) { return c.has_d; }) &&
         std::any_of(row.begin(), row.end(), [](const Cell& c) { return c.has_r; });
}

const Cell* FreeRun::cell(std::size_t step_index, int tensor) const {
  const auto& row = cells_[step_index];
  return static_cast<std::size_t>(tensor) < row.size() ? &row[static_cast<std::size_t>(tensor)] : nullptr;
}

double FreeRun::noise(std::size_t step_index, int tensor) const {
  double noise = 0;
  const std::size_t first = step_index < 2 ? 0 : step_index - 2;
  for (std::size_t i = first; i < std::min(step_index + 3, cells_.size()); ++i) {
    const Cell* near = cell(i, tensor);
    if (near != nullptr) noise = std::max(noise, near->noise);
  }
  return noise;
}

Cell& FreeRun::at(std::size_t step_index, int tensor) {
  auto& row = cells_[step_index];
  if (row.size() <= static_cast<std::size_t>(tensor)) row.resize(static_cast<std::size_t>(names_.size()));
  return row[static_cast<std::size_t>(tensor)];
}

// Rank 0 alone keeps sketches of replicated tensors; that the other ranks hold the same is another check's business.
template <class Use>
void FreeRun::visit_slice(const PairRecord& pair, std::int64_t run, std::size_t first, std::size_t end, Use use) {
  visit_tensors(pair.reader, run, stage::kRaw, [&](const recorder::TensorRow& row) {
    if (row.trace.step > steps_[end - 1]) return false;
    if (row.rank != 0) return true;
    const auto found = index_.find(row.trace.step);
    if (found != index_.end() && found->second >= first && found->second < end) use(found->second, row.trace);
    return true;
  });
}

void FreeRun::read_slice(const PairRecord& pair, std::size_t first, std::size_t end) {
  Slice slice;
  read_reference(pair, first, end, slice);
  read_candidate(pair, first, end, slice);
  for (const auto& rerun : pair.reruns) read_rerun(pair, rerun, first, end, slice);
}

void FreeRun::read_reference(const PairRecord& pair, std::size_t first, std::size_t end, Slice& slice) {
  visit_slice(pair, pair.shadow->reference.id(), first, end, [&](std::size_t i, const TensorTrace& trace) {
    const int tensor = names_.id(trace.name);
    Cell& cell = at(i, tensor);
    cell.has_r = true;
    cell.r_norm = trace.norm;
    slice[{i, tensor}] = Kept{trace.digest, trace.norm, trace.sketch};
  });
}

void FreeRun::read_candidate(const PairRecord& pair, std::size_t first, std::size_t end, const Slice& slice) {
  visit_slice(pair, pair.shadow->candidate.id(), first, end, [&](std::size_t i, const TensorTrace& trace) {
    const int tensor = names_.id(trace.name);
    Cell& cell = at(i, tensor);
    cell.has_d = true;
    cell.d_norm = trace.norm;
    const auto kept = slice.find({i, tensor});
    if (kept == slice.end()) return;
    cell.equal = kept->second.digest == trace.digest;
    if (cell.equal || trace.sketch.empty() || trace.sketch.size() != kept->second.sketch.size()) return;
    cell.has_distance = true;
    cell.distance = distance_between(trace.sketch, kept->second.sketch);
    common_scale(trace.sketch, kept->second.sketch, cell);
  });
}

void FreeRun::read_rerun(const PairRecord& pair, const RunData& rerun, std::size_t first, std::size_t end, const Slice& slice) {
  visit_slice(pair, rerun.id(), first, end, [&](std::size_t i, const TensorTrace& trace) {
    const auto kept = slice.find({i, names_.id(trace.name)});
    if (kept == slice.end() || kept->second.digest == trace.digest || trace.sketch.size() != kept->second.sketch.size()) return;
    const double distance = distance_between(trace.sketch, kept->second.sketch);
    Cell& cell = at(i, names_.id(trace.name));
    if (std::isfinite(distance)) cell.noise = std::max(cell.noise, distance);
  });
}

}  // namespace samerun::verify
