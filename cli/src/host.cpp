#include "host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace samerun::cli {
namespace {

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());  // More than 1024 cores.
}

/// Cores granted by the control group of this process (version 2); a huge number without a quota.
double quota_cores() {
  std::ifstream groups("/proc/self/cgroup");
  double least = 1e9;
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    for (std::string folder = line.substr(3);; folder.resize(folder.rfind('/'))) {
      std::ifstream file("/sys/fs/cgroup" + folder + "/cpu.max");
      double quota = 0, period = 0;
      if (file >> quota >> period && period > 0) least = std::min(least, quota / period);
      if (folder.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace

int usable_cores() {
  const double cores = std::min<double>(affinity_cores(), std::ceil(quota_cores()));
  return std::max(1, static_cast<int>(cores));
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
  return name.data();
}

bool wants_color(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string(terminal) == "dumb";
  return ::isatty(fd) == 1 && (no_color == nullptr || *no_color == '\0') && !dumb;
}

}  // namespace samerun::cli
