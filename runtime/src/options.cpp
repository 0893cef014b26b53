#include "samerun/runtime/options.h"

#include <limits>

#include "samerun/core/launch_contract.h"

namespace samerun {
namespace {

Setting<std::int64_t> integer(const char* name, std::int64_t least, std::int64_t otherwise) {
  const auto value = environment_integer(name, least, std::numeric_limits<std::int64_t>::max());
  return value ? Setting<std::int64_t>(*value, Origin::kEnvironment) : Setting<std::int64_t>(otherwise, Origin::kDefault);
}

Setting<std::string> text(const char* name, const char* otherwise) {
  const auto value = environment_text(name);
  return value ? Setting<std::string>(*value, Origin::kEnvironment) : Setting<std::string>(otherwise, Origin::kDefault);
}

}  // namespace

Options resolve_options(int argc, char** argv) {
  Options options;
  options.seed = integer(env::kSeed, 0, 0);
  options.accumulation_steps = integer(env::kAccumulation, 1, 1);
  options.timeout_s = integer(env::kTimeout, 1, 600);
  options.find_unused_parameters = Setting<bool>(false, Origin::kDefault);
  options.bucket_bytes = Setting<std::int64_t>(std::int64_t{25} << 20, Origin::kDefault);
  options.allow_outside_updates = Setting<bool>(false, Origin::kDefault);
  options.device = text(env::kDevice, "cpu");
  options.backend = text(env::kBackend, "auto");
  options.checkpoint_dir = text(env::kCheckpointDir, "checkpoints");
  options.total_limit = Setting<std::int64_t>(0, Origin::kDefault);
  options.argv.assign(argv, argv + argc);
  options.observers = std::make_shared<ObserverList>();
  return options;
}

}  // namespace samerun
