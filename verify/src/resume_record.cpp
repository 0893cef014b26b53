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

/// Batches of the window under way that rank 0 had been handed where the run was saved. The position counts micro-batches by
/// whole windows; its batch is the last one handed over.
std::int64_t rounds_done(const RunData& run, const Position& saved) {
  return std::count_if(run.shards.begin(), run.shards.end(), [&saved](const auto& row) {
    const Shard& shard = row.shard;
    return row.rank == 0 && shard.step == saved.optimizer_step && shard.epoch == saved.epoch && shard.global_batch <= saved.batch_index;
  });
}

void read_point(const recorder::Reader& reader, ResumePoint& point) {
  if (point.saving) {
    point.killed = steps_made(*point.saving);
    for (const auto& row : reader.checkpoints(point.saving->id())) {
      if (row.rank != 0) continue;
      point.steps = row.checkpoint.position.optimizer_step;
      point.rounds = rounds_done(*point.saving, row.checkpoint.position);
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
