#include <cmath>
#include <nlohmann/json.hpp>

#include "samerun/verify/verify.h"

namespace samerun::verify {
namespace {

using Json = nlohmann::ordered_json;

const char* kind_of(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "infinity" : "-infinity";
  return "finite";
}

// JSON has no word for what is not finite: null, and the kind beside it.
void put_number(Json& object, const std::string& key, double value) {
  object[key] = std::isfinite(value) ? Json(value) : Json(nullptr);
  if (!std::isfinite(value)) object[key + "_kind"] = kind_of(value);
}

Json evidence_json(const Evidence& evidence) {
  Json object;
  object["check"] = evidence.check;
  object["word"] = to_string(evidence.word);
  object["stage"] = evidence.stage;
  object["tensor"] = evidence.tensor;
  object["step"] = evidence.step;
  object["rank"] = evidence.rank;
  put_number(object, "value", evidence.value);
  put_number(object, "limit", evidence.limit);
  object["text"] = evidence.text;
  return object;
}

Json coverage_json(const Report& report) {
  Json object;
  put_number(object, "share", report.coverage_tensors);
  object["tensors"] = report.coverage.tensors;
  object["decided"] = report.coverage.decided;
  object["undecided"] = report.coverage.undecided;
  object["steps"] = report.coverage.steps;
  object["float64_steps"] = report.coverage.shadow_steps;
  object["locked_steps"] = report.coverage.locked_steps;
  return object;
}

Json first_json(const Report& report) {
  if (!report.first) return nullptr;
  Json object;
  object["stage"] = report.first->stage;
  object["tensor"] = report.first->tensor;
  object["step"] = report.first->step;
  object["rank"] = report.first->rank;
  object["check"] = report.first->check;
  return object;
}

}  // namespace

std::string to_json(const Report& report) {
  Json object;
  object["verdict"] = to_string(report.verdict);
  object["exit_code"] = exit_code(report.verdict);
  object["summary"] = report.summary;
  object["group"] = report.group_id;
  object["candidate"] = report.candidate;
  object["reference"] = report.reference;
  object["coverage"] = coverage_json(report);
  object["checks"] = Json::array();
  for (const auto& check : report.checks) {
    Json entry;
    entry["name"] = check.name;
    entry["word"] = to_string(check.word);
    entry["summary"] = check.summary;
    entry["evidence"] = Json::array();
    for (const auto& evidence : check.evidence) entry["evidence"].push_back(evidence_json(evidence));
    object["checks"].push_back(std::move(entry));
  }
  object["not_exercised"] = report.not_exercised;
  object["first"] = first_json(report);
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace samerun::verify
