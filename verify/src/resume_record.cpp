#include "resume_record.h"

#include <algorithm>
#include <set>

#include "samerun/core/error.h"

namespace samerun::verify {
namespace {

/// Steps of a run, counted on all ranks: a rank that was killed late may have told of one more.
std::int64_t steps_made(const RunData& run) {
  return run.steps.empty() ? 0 : run.steps.back().step.step + 1;
}

/// Training batches that rank 0 was handed before optimizer step `step`.
std::int64_t batches_before(const RunData& run, std::int64_t step) {
  return std::count_if(run.shards.begin(), run.shards.end(),
                       [step](const auto& row) { return row.rank == 0 && row.shard.step >= 0 && row.shard.step < step; });
}

void read_point(const recorder::Reader& reader, ResumePoint& point) {
  if (point.saving) {
    point.killed = steps_made(*point.saving);
    for (const auto& row : reader.checkpoints(point.saving->id())) {
      if (row.rank != 0) continue;
      point.steps = row.checkpoint.position.optimizer_step;
      point.rounds = std::max<std::int64_t>(0, row.checkpoint.position.micro_step - batches_before(*point.saving, point.steps));
    }
    for (const auto& row : reader.state_leaves(point.saving->id())) {
      if (row.leaf.moment == "saved" && row.leaf.step == point.steps) point.saved[{row.rank, row.leaf.path}] = row.leaf.digest;
    }
  }
  if (!point.resumed) return;
  for (const auto& row : reader.state_leaves(point.resumed->id())) {
    if (row.leaf.moment == "loaded") point.loaded[{row.rank, row.leaf.path}] = row.leaf.digest;
  }
}

}  // namespace

std::string ResumePoint::text() const {
  if (steps < 0) return "point " + number;
  return "step " + std::to_string(steps) + (rounds > 0 ? "+" + std::to_string(rounds) : "");
}

std::int64_t ResumeRecord::end() const {
  return steps_made(straight);
}

ResumeRecord load_resume(const recorder::Reader& reader, const std::string& group) {
  std::optional<recorder::RunRow> straight;
  std::map<std::int64_t, ResumePoint> points;  // By number.
  for (const auto& row : reader.group(group)) {
    if (row.role == "straight") straight = row;
    const std::size_t dash = row.role.find('-');
    if (dash == std::string::npos) continue;
    const std::string part = row.role.substr(0, dash), number = row.role.substr(dash + 1);
    if (part != "saving" && part != "resumed" && part != "cold") continue;
    ResumePoint& point = points[std::atoll(number.c_str())];
    point.number = number;
    (part == "saving" ? point.saving : part == "resumed" ? point.resumed : point.cold) = load_run(reader, row, true);
  }
  if (!straight) throw Error(ErrorCode::kConfig, "the record has no resume check of this group", {{"group", group}});
  ResumeRecord record{reader, load_run(reader, *straight, true), {}};
  for (auto& [number, point] : points) {
    read_point(reader, point);
    record.points.push_back(std::move(point));
  }
  return record;
}

}  // namespace samerun::verify
