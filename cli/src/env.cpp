#include "samerun/recorder/environment.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli_version.h"
#include "commands.h"
#include "table.h"

namespace samerun::cli {
namespace {

std::string as_json(const std::vector<EnvironmentFact>& facts) {
  nlohmann::ordered_json json;
  json["samerun"] = kVersion;
  for (const EnvironmentFact& fact : facts) {
    nlohmann::ordered_json& entry = json["facts"][fact.key];
    entry["value"] = fact.why_null.empty() ? nlohmann::ordered_json(fact.value) : nlohmann::ordered_json(nullptr);
    entry["source"] = fact.source;
    if (!fact.why_null.empty()) entry["why_null"] = fact.why_null;
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const std::vector<EnvironmentFact>& facts) {
  std::string text = std::string("- samerun: ") + kVersion + "\n";
  for (const EnvironmentFact& fact : facts) {
    const std::string value = fact.why_null.empty() ? fact.value : "unknown (" + fact.why_null + ")";
    text += "- " + fact.key + ": " + printable(value) + "\n";
  }
  return text;
}

}  // namespace

int run_env(const EnvOptions& options) {
  const std::vector<EnvironmentFact> facts = recorder::probe_environment();
  std::fputs((options.json ? as_json(facts) : as_text(facts)).c_str(), stdout);
  return 0;
}

}  // namespace samerun::cli
