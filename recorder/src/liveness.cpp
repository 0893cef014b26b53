#include "liveness.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include "samerun/core/clock.h"

namespace samerun::recorder {
namespace {

constexpr std::int64_t kHeartbeatLimitNs = 60'000'000'000;

struct ProcessState {
  char state = '?';
  std::int64_t start_ticks = 0;
};

std::optional<ProcessState> process_state(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto name_end = text.rfind(')');  // The name before it may hold spaces and brackets.
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessState result;
  fields >> result.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> result.start_ticks;
  if (!fields) return std::nullopt;
  return result;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  file >> text;
  return text;
}

LauncherMark read_launcher(Statement& row) {
  LauncherMark mark;
  mark.pid = row.integer();
  mark.pid_start = row.integer();
  mark.host = row.text();
  mark.boot_id = row.text();
  mark.heartbeat_utc_ns = row.integer();
  return mark;
}

LauncherMark this_process() {
  LauncherMark mark;
  mark.pid = getpid();
  const auto state = process_state(mark.pid);
  mark.pid_start = state ? state->start_ticks : 0;
  mark.host = host_name();
  mark.boot_id = boot_id();
  mark.heartbeat_utc_ns = utc_now_ns();
  return mark;
}

bool launcher_gone(const LauncherMark& mark) {
  if (mark.host != host_name() || mark.boot_id != boot_id()) return utc_now_ns() - mark.heartbeat_utc_ns > kHeartbeatLimitNs;
  const auto state = process_state(mark.pid);
  if (!state || state->state == 'Z' || state->state == 'X') return true;
  return mark.pid_start != 0 && state->start_ticks != mark.pid_start;
}

}  // namespace samerun::recorder
