#include "run_settings.h"

#include <algorithm>
#include <filesystem>

#include "host.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/recorder/store.h"

namespace samerun::cli {
namespace {

using Integer = std::optional<Setting<std::int64_t>>;

Integer resolve(const std::optional<int>& flag, const char* variable, std::int64_t least, std::int64_t most) {
  if (flag) return Setting<std::int64_t>(*flag, Origin::kArgument);
  if (const auto value = environment_integer(variable, least, most)) return Setting<std::int64_t>(*value, Origin::kEnvironment);
  return std::nullopt;
}

Setting<std::int64_t> otherwise(const Integer& resolved, std::int64_t value) {
  return resolved ? *resolved : Setting<std::int64_t>(value, Origin::kDefault);
}

Backend resolve_backend(const std::optional<std::string>& flag, std::int64_t ranks) {
  const Setting<std::string> word = resolve_backend_word(flag);
  try {
    return find_backend(word, ranks);
  } catch (const Error& error) {
    throw Error(error.code(), "backend " + with_origin(word.value(), word.origin()) + ": " + error.what() + "; or take another: --backend gloo");
  }
}

}  // namespace

Setting<std::string> resolve_record_dir(const std::optional<std::string>& flag) {
  // Absolute: ranks and programs may change their working directory.
  if (flag) return {std::filesystem::absolute(*flag).string(), Origin::kArgument};
  const Origin origin = environment_text("SAMERUN_DIR") ? Origin::kEnvironment : Origin::kDefault;
  return {std::filesystem::absolute(recorder::default_folder()).string(), origin};
}

RunSettings resolve_run(const RunFlags& flags, std::int64_t default_ranks) {
  RunSettings settings;
  settings.ranks = otherwise(resolve(flags.ranks, "SAMERUN_NPROC", 1, 4096), default_ranks);
  const std::int64_t share = std::max<std::int64_t>(1, usable_cores() / settings.ranks.value());
  settings.threads = otherwise(resolve(flags.threads, env::kThreads, 1, 4096), share);
  settings.timeout_s = resolve(flags.timeout_s, env::kTimeout, 1, 86400);
  if (flags.seed) {
    settings.seed = Setting<std::string>(std::to_string(*flags.seed), Origin::kArgument);
  } else if (const auto text = environment_text(env::kSeed)) {
    settings.seed = Setting<std::string>(*text, Origin::kEnvironment);  // The ranks check it.
  }
  settings.backend = resolve_backend(flags.backend, settings.ranks.value());
  settings.record_dir = resolve_record_dir(flags.record_dir);
  return settings;
}

std::string with_origin(const std::string& value, Origin origin) {
  return value + " (" + std::string(to_string(origin)) + ")";
}

std::string RunSettings::text() const {
  std::string text = "ranks " + with_origin(std::to_string(ranks.value()), ranks.origin());
  text += ", threads " + with_origin(std::to_string(threads.value()), threads.origin());
  if (timeout_s) text += ", timeout " + with_origin(std::to_string(timeout_s->value()) + " s", timeout_s->origin());
  if (seed) text += ", seed " + with_origin(seed->value(), seed->origin());
  if (const std::string carried = backend.text(); !carried.empty()) text += ", " + carried;
  return text;
}

std::map<std::string, std::string> RunSettings::environment() const {
  std::map<std::string, std::string> variables = backend.environment();
  if (timeout_s) variables[env::kTimeout] = std::to_string(timeout_s->value());
  if (seed) variables[env::kSeed] = seed->value();
  return variables;
}

}  // namespace samerun::cli
