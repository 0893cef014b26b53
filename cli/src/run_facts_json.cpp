#include <nlohmann/json.hpp>

#include "run_facts.h"

namespace samerun::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json run_json(const recorder::RunRow& run) {
  return {{"run", run.id},
          {"group", run.group_id},
          {"role", run.role},
          {"parent", optional(run.parent_id)},
          {"world_size", run.world_size},
          {"status", run.status},
          {"exit_code", optional(run.exit_code)},
          {"message", run.message},
          {"complete", run.complete},
          {"argv", run.argv},
          {"cwd", run.cwd},
          {"host", run.host},
          {"program_digest", run.program_digest},
          {"started_utc_ns", run.started_utc_ns},
          {"ended_utc_ns", optional(run.ended_utc_ns)}};
}

Json code_json(const RunFacts& facts) {
  if (!facts.code) return nullptr;
  const recorder::CodeRow& code = *facts.code;
  return {{"head", code.head},
          {"branch", code.branch},
          {"dirty", optional(code.dirty)},
          {"remote", code.remote},
          {"patch_sha256", code.patch_sha256},
          {"untracked", code.untracked},
          {"why_null", code.why_null}};
}

Json ranks_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const recorder::RankRow& row : facts.ranks) {
    json.push_back({{"rank", row.rank},
                    {"host", row.host},
                    {"pid", row.pid},
                    {"build_id", row.build_id},
                    {"status", row.status},
                    {"steps", row.steps},
                    {"message", row.message}});
  }
  return json;
}

Json exits_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const recorder::RankExitRow& row : facts.exits) {
    json.push_back({{"rank", row.rank},
                    {"exit_code", optional(row.exit_code)},
                    {"signal", optional(row.signal)},
                    {"first_failure", row.first_failure},
                    {"stderr_tail", row.stderr_tail}});
  }
  return json;
}

Json settings_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const recorder::SettingRow& row : facts.settings) {
    json.push_back({{"rank", row.rank}, {"key", row.setting.key}, {"value", row.setting.value}, {"origin", row.setting.origin}});
  }
  return json;
}

Json environment_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const recorder::EnvironmentRow& row : facts.environment) {
    const Json value = row.fact.why_null.empty() ? Json(row.fact.value) : Json(nullptr);
    json.push_back({{"rank", row.rank}, {"key", row.fact.key}, {"value", value}, {"source", row.fact.source}, {"why_null", row.fact.why_null}});
  }
  return json;
}

Json steps_json(const RunFacts& facts) {
  Json json{{"count", facts.steps}, {"skipped", facts.skipped_steps}};
  if (facts.batch) {
    json["samples_set"] = facts.batch->set;
    json["samples_counted"] = facts.batch->counted;
    json["steps_that_disagree"] = facts.batch->steps_that_disagree;
    json["last_loss_numerator"] = facts.last_step->loss_numerator;
    json["last_loss_denominator"] = facts.last_step->loss_denominator;
  }
  return json;
}

Json datasets_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const recorder::DatasetRow& row : facts.datasets) {
    json.push_back({{"rank", row.rank},
                    {"purpose", row.dataset.purpose},
                    {"size", row.dataset.size},
                    {"rows", row.dataset.rows},
                    {"digest", to_hex(row.dataset.digest)}});
  }
  return json;
}

Json metrics_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const auto& [key, metric] : facts.metrics) {
    const bool logged = metric.rows < 0;  // Nothing is known of how it came about.
    json.push_back({{"name", metric.name},
                    {"value", metric.value},
                    {"step", metric.step},
                    {"epoch", metric.epoch},
                    {"rule", metric.rule},
                    {"purpose", logged ? Json(nullptr) : Json(metric.purpose)},
                    {"pass", logged ? Json(nullptr) : Json(metric.pass)},
                    {"numerator", logged ? Json(nullptr) : Json(metric.numerator)},
                    {"denominator", logged ? Json(nullptr) : Json(metric.denominator)},
                    {"rows", logged ? Json(nullptr) : Json(metric.rows)}});
  }
  return json;
}

Json checkpoints_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const CheckpointCommitted& checkpoint : facts.checkpoints) {
    json.push_back({{"step", checkpoint.position.optimizer_step},
                    {"epoch", checkpoint.position.epoch},
                    {"path", checkpoint.path},
                    {"bytes", checkpoint.bytes},
                    {"manifest_sha256", checkpoint.manifest_sha256}});
  }
  return json;
}

Json events_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const recorder::EventRow& row : facts.events) {
    json.push_back({{"rank", row.rank},
                    {"utc_ns", row.utc_ns},
                    {"severity", row.event.severity},
                    {"kind", row.event.kind},
                    {"text", row.event.text},
                    {"step", row.event.step}});
  }
  return json;
}

Json spread_json(const profiler::Spread& ms) {
  return {{"p5", ms.p5}, {"median", ms.median}, {"p95", ms.p95}};
}

Json phases_json(const RunFacts& facts) {
  if (!facts.speed.steps) return nullptr;
  const profiler::StepProfile& steps = *facts.speed.steps;
  Json json{{"steps", steps.wall_ms.size()},
            {"warmup_steps", steps.warmup_steps},
            {"samples_per_step", steps.samples_per_step},
            {"samples_per_s", steps.samples_per_s},
            {"load_balance", steps.load_balance},
            {"step_ms", spread_json(steps.step_ms)},
            {"mean_ms", steps.mean_ms}};
  for (std::size_t part = 0; part < profiler::kParts.size(); ++part) {
    Json entry{{"name", profiler::kParts[part].name}, {"slowest_rank_ms", spread_json(steps.slowest_ms[part])}};
    entry["mean_ms"] = steps.mean_parts_ms[part];
    json["parts"].push_back(std::move(entry));
  }
  return json;
}

Json run_phases_json(const RunFacts& facts) {
  Json json = Json::array();
  for (const RankParts& rank : facts.speed.ranks) {
    for (const RunPhase& part : rank.parts) json.push_back({{"rank", rank.rank}, {"name", part.name}, {"ns", part.ns}});
  }
  return json;
}

}  // namespace

std::string facts_json(const RunFacts& facts) {
  Json json = run_json(facts.run);
  json["code"] = code_json(facts);
  json["ranks"] = ranks_json(facts);
  json["exits"] = exits_json(facts);
  json["steps"] = steps_json(facts);
  json["phases"] = phases_json(facts);
  json["run_phases"] = run_phases_json(facts);
  json["datasets"] = datasets_json(facts);
  json["metrics"] = metrics_json(facts);
  json["checkpoints"] = checkpoints_json(facts);
  json["settings"] = settings_json(facts);
  json["environment"] = environment_json(facts);
  json["events"] = events_json(facts);
  json["dropped_rows"] = facts.dropped_rows;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace samerun::cli
