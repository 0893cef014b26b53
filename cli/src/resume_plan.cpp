#include "resume_plan.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <sstream>

#include "pair_plan.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/reader.h"

namespace samerun::cli {
namespace {

/// Fewest and most optimizer steps of a run, unless told otherwise or the program ends before.
constexpr const char* kBounds = "6:200";
/// Steps that a run goes on after it has saved: what saving upsets shows in them.
constexpr std::int64_t kStepsAfter = 2;

std::optional<std::int64_t> number_from(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

SavePoint parse_point(const std::string& word) {
  const std::size_t plus = word.find('+');
  const auto steps = number_from(word.substr(0, plus));
  const auto micro_batches = plus == std::string::npos ? std::optional<std::int64_t>(0) : number_from(word.substr(plus + 1));
  if (!steps || !micro_batches || (*steps == 0 && *micro_batches == 0) || (plus != std::string::npos && *micro_batches == 0))
    throw Error(ErrorCode::kConfig, "--points wants S or S+M with whole numbers, such as 3,3+1,6, not \"" + word + "\"");
  return {*steps, *micro_batches};
}

/// What rank 0 did in one optimizer step.
struct Window {
  std::int64_t epoch = 0, micro_batches = 0;
};

std::map<std::int64_t, Window> windows_of(const recorder::Reader& reader, std::int64_t run) {
  std::map<std::int64_t, Window> windows;
  for (const auto& row : reader.shards(run)) {
    if (row.rank != 0 || row.shard.step < 0) continue;
    Window& window = windows[row.shard.step];
    window.epoch = row.shard.epoch;
    ++window.micro_batches;
  }
  return windows;
}

}  // namespace

std::string SavePoint::text() const {
  return std::to_string(steps) + (micro_batches > 0 ? "+" + std::to_string(micro_batches) : "");
}

std::vector<SavePoint> parse_points(const std::string& text) {
  std::vector<SavePoint> points;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    const SavePoint point = parse_point(word);
    if (std::find(points.begin(), points.end(), point) != points.end()) throw Error(ErrorCode::kConfig, "--points names " + point.text() + " twice");
    points.push_back(point);
  }
  return points;
}

std::vector<SavePoint> choose_points(const recorder::Reader& reader, std::int64_t run) {
  const std::map<std::int64_t, Window> windows = windows_of(reader, run);
  const auto steps = static_cast<std::int64_t>(reader.steps(run).empty() ? 0 : reader.steps(run).back().step.step + 1);
  std::int64_t epoch_end = 0;
  for (const auto& [step, window] : windows) {
    if (step < steps && window.epoch == windows.begin()->second.epoch) epoch_end = step + 1;
  }
  std::vector<SavePoint> points;
  const std::int64_t middle = epoch_end / 2;
  if (middle > 0) points.push_back({middle, 0});
  // Of the window after the middle, where it belongs to the same epoch and can be cut.
  for (const std::int64_t step : {middle + 1, middle}) {
    const auto window = windows.find(step);
    if (step >= epoch_end || window == windows.end() || window->second.micro_batches < 2) continue;
    points.push_back({step, window->second.micro_batches / 2});
    break;
  }
  if (epoch_end > 0 && epoch_end < steps) points.push_back({epoch_end, 0});
  return points;
}

ResumePlan::ResumePlan(std::vector<std::string> command, const RunSettings& settings, std::string group, std::filesystem::path folder,
                       std::map<std::string, std::string> extra)
    : command_(std::move(command)), settings_(settings), group_(std::move(group)), folder_(std::move(folder)), extra_(std::move(extra)) {}

LaunchSpec ResumePlan::base(const std::string& role) const {
  LaunchSpec spec = comparison_run(command_, settings_, group_, role);
  spec.world_size = static_cast<int>(settings_.ranks.value());
  for (const auto& [name, value] : extra_) spec.env[name] = value;
  return spec;
}

LaunchSpec ResumePlan::straight(std::int64_t steps) const {
  LaunchSpec spec = base("straight");
  if (steps > 0) {
    spec.env[env::kStopAfter] = std::to_string(steps);
  } else {
    spec.env[env::kShadow] = kBounds;
  }
  return spec;
}

LaunchSpec ResumePlan::saving(int number, const SavePoint& point, std::int64_t end) const {
  LaunchSpec spec = base("saving-" + std::to_string(number));
  spec.env[env::kCheckpointDir] = (folder_ / std::to_string(number)).string();
  spec.env[env::kSaveAt] = point.text();
  spec.env[env::kKillAt] = std::to_string(std::min(end, point.steps + kStepsAfter));
  spec.ends_by_sigkill = true;
  return spec;
}

LaunchSpec ResumePlan::loading(const std::string& role, int number, const std::string& checkpoint) const {
  LaunchSpec spec = base(role + "-" + std::to_string(number));
  spec.env[env::kResumeFrom] = checkpoint;
  return spec;
}

LaunchSpec ResumePlan::resumed(int number, const std::string& checkpoint, std::int64_t end) const {
  LaunchSpec spec = loading("resumed", number, checkpoint);
  spec.env[env::kPoison] = "1";
  spec.env[env::kStopAfter] = std::to_string(end);
  return spec;
}

LaunchSpec ResumePlan::cold(int number, const std::string& checkpoint, const SavePoint& point, std::int64_t end) const {
  LaunchSpec spec = loading("cold", number, checkpoint);
  spec.env[env::kLoadOnly] = "weights";
  spec.env[env::kStopAfter] = std::to_string(std::min(end, point.steps + kStepsAfter));
  return spec;
}

}  // namespace samerun::cli
