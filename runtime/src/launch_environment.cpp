#include "launch_environment.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <limits>

#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/core/settings.h"

namespace samerun::detail {
namespace {

constexpr std::int64_t kMostRanks = 1 << 20;

struct Dialect {
  const char* source;
  const char *rank, *size, *local_rank;
  const char* local_size;  ///< Null: all ranks are on this host.
};

// In the order in which they win.
constexpr std::array<Dialect, 5> kDialects{{
    {"samerun launch", env::kRank, env::kWorldSize, env::kLocalRank, nullptr},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
}};

int integer_or(const char* name, std::int64_t least, std::int64_t most, int otherwise) {
  const auto value = environment_integer(name, least, most);
  return value ? static_cast<int>(*value) : otherwise;
}

bool read_dialect(const Dialect& dialect, LaunchInfo& info) {
  const auto rank = environment_integer(dialect.rank, 0, kMostRanks);
  const auto size = environment_integer(dialect.size, 1, kMostRanks);
  const bool local = environment_text(dialect.local_rank).has_value();
  if (!rank && !size && !local) return false;
  if (!rank || !size) {
    throw Error(ErrorCode::kConfig,
                std::string(rank   ? dialect.rank
                            : size ? dialect.size
                                   : dialect.local_rank) +
                    " is set but " + (rank ? dialect.size : dialect.rank) +
                    " is not: a rank must know both; start the program with `samerun launch -n N -- PROGRAM`, or unset it to run alone",
                {{"launcher", dialect.source}});
  }
  if (*rank >= *size) throw Error(ErrorCode::kConfig, std::string(dialect.rank) + " must be below " + dialect.size, {{"launcher", dialect.source}});
  info.rank = static_cast<int>(*rank);
  info.world_size = static_cast<int>(*size);
  info.local_rank = integer_or(dialect.local_rank, 0, kMostRanks, info.rank);
  info.local_world_size = dialect.local_size == nullptr ? info.world_size : integer_or(dialect.local_size, 1, kMostRanks, 0);
  info.source = dialect.source;
  return true;
}

void read_store(LaunchInfo& info) {
  const bool own = info.source == "samerun launch";
  if (const auto host = environment_text(own ? env::kStoreHost : "MASTER_ADDR")) info.store_host = *host;
  info.store_port = integer_or(own ? env::kStorePort : "MASTER_PORT", 1, 65535, 0);
  if (const auto fd = environment_integer(env::kStoreFd, 3, 1 << 20); fd && own) info.store_fd = static_cast<int>(*fd);
  const bool one_host_of_mpi = info.wired_for_mpi && info.local_world_size == info.world_size;
  if (info.world_size > 1 && info.store_port == 0 && !info.store_fd && !one_host_of_mpi) {
    throw Error(ErrorCode::kConfig, std::string("no port of the store: set ") + (own ? env::kStorePort : "MASTER_ADDR and MASTER_PORT"),
                {{"launcher", info.source}}, info.rank);
  }
}

std::set<std::int64_t> steps_from(const std::string& text) {
  std::set<std::int64_t> steps;
  std::size_t at = 0;
  while (at <= text.size()) {
    const auto comma = std::min(text.find(',', at), text.size());
    const auto word = text.substr(at, comma - at);
    char* end = nullptr;
    const auto step = std::strtoll(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || step < 0)
      throw Error(ErrorCode::kConfig, std::string(env::kLockedSteps) + " is not a list of steps", {{"text", text}});
    steps.insert(step);
    at = comma + 1;
  }
  return steps;
}

void read_shadow(Mode& mode) {
  const auto text = environment_text(env::kShadow);
  if (!text) return;
  char* end = nullptr;
  mode.shadow_least = std::strtoll(text->c_str(), &end, 10);
  if (*end == ':') mode.shadow_most = std::strtoll(end + 1, &end, 10);
  if (*end != '\0' || mode.shadow_least < 1 || mode.shadow_most < 1)
    throw Error(ErrorCode::kConfig, std::string(env::kShadow) + " must be LEAST:MOST", {{"text", *text}});
}

void read_save_at(Mode& mode) {
  const auto text = environment_text(env::kSaveAt);
  if (!text) return;
  char* end = nullptr;
  mode.save_at = std::strtoll(text->c_str(), &end, 10);
  if (*end == '+') mode.save_at_micro = std::strtoll(end + 1, &end, 10);
  if (*end != '\0' || mode.save_at < 0 || mode.save_at_micro < 0)
    throw Error(ErrorCode::kConfig, std::string(env::kSaveAt) + " must be STEPS or STEPS+MICRO_BATCHES", {{"text", *text}});
}

void read_checkpoint_mode(Mode& mode) {
  mode.checkpoints = environment_bool(env::kCheckpoints).value_or(true);
  mode.resume_from = environment_text(env::kResumeFrom).value_or("");
  mode.resume_command = environment_text(env::kResumeCommand).value_or("");
  read_save_at(mode);
  mode.kill_at = environment_integer(env::kKillAt, 1, std::numeric_limits<std::int64_t>::max()).value_or(-1);
  mode.poison = environment_bool(env::kPoison).value_or(false);
  const auto only = environment_text(env::kLoadOnly).value_or("");
  if (!only.empty() && only != "weights") throw Error(ErrorCode::kConfig, std::string(env::kLoadOnly) + " must be weights", {{"text", only}});
  mode.load_weights_only = only == "weights";
}

void write_control(const LaunchInfo& launch, const std::string& line) {
  if (launch.control_fd < 0) return;
  // The launcher may be gone; the pipe's guard ends this process then, so a failed write is no news.
  [[maybe_unused]] const auto written = ::write(launch.control_fd, line.data(), line.size());
}

}  // namespace

LaunchInfo read_launch_environment() {
  LaunchInfo info;
  for (const auto& dialect : kDialects) {
    if (read_dialect(dialect, info)) break;
  }
  info.wired_for_mpi = info.world_size > 1 && (environment_text("PMIX_NAMESPACE") || environment_text("OMPI_COMM_WORLD_SIZE"));
  if (info.source != "none") read_store(info);
  info.control_fd = integer_or(env::kControlFd, 3, 1 << 20, -1);
  if (const auto threads = environment_integer(env::kThreads, 1, 4096)) info.threads = static_cast<int>(*threads);
  return info;
}

Mode read_mode() {
  Mode mode;
  const auto precision = environment_text(env::kPrecision).value_or("native");
  if (precision != "native" && precision != "float64")
    throw Error(ErrorCode::kConfig, std::string(env::kPrecision) + " must be native or float64", {{"text", precision}});
  mode.float64 = precision == "float64";
  mode.replay_world = integer_or(env::kReplayWorld, 1, kMostRanks, 0);
  const auto reference = environment_text(env::kReference).value_or("replay");
  if (reference != "replay" && reference != "whole")
    throw Error(ErrorCode::kConfig, std::string(env::kReference) + " must be replay or whole", {{"text", reference}});
  mode.whole = reference == "whole";
  mode.variation = integer_or(env::kVariation, 0, 1000, 0);
  if (const auto steps = environment_text(env::kLockedSteps)) mode.locked_steps = steps_from(*steps);
  mode.capture_to = environment_text(env::kCaptureTo).value_or("");
  mode.locked_from = environment_text(env::kLockedFrom).value_or("");
  mode.locked_of = environment_integer(env::kLockedOf, 0, std::numeric_limits<std::int64_t>::max()).value_or(0);
  mode.stop_after = environment_integer(env::kStopAfter, 1, std::numeric_limits<std::int64_t>::max()).value_or(0);
  read_shadow(mode);
  read_checkpoint_mode(mode);
  return mode;
}

void say_hello(const LaunchInfo& launch) {
  write_control(launch, "hello 0.1.0 " + std::to_string(::getpid()) + "\n");
}
void say_bye(const LaunchInfo& launch) {
  write_control(launch, "bye\n");
}

}  // namespace samerun::detail
