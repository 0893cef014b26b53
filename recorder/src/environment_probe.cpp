#include "environment_probe.h"

#include <git2.h>
#include <gnu/libc-version.h>
#include <openssl/crypto.h>
#include <sched.h>
#include <sqlite3.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include "build_info.h"
#include "file_system.h"
#include "liveness.h"
#include "redact.h"
#include "samerun/recorder/environment.h"
#include "samerun/recorder/store.h"

extern char** environ;

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

using Facts = std::vector<EnvironmentFact>;

void probe(Facts& facts, const std::string& key, const std::string& source, const std::function<std::string()>& read) {
  try {
    const std::string value = read();
    facts.push_back({key, value, source, value.empty() ? "nothing found" : ""});
  } catch (const std::exception& error) {
    facts.push_back({key, "", source, error.what()[0] != '\0' ? error.what() : "unknown error"});
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

// Value of the first line "name : value".
std::string field_of(const std::string& path, const std::string& name) {
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    const auto value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string::npos ? std::string() : line.substr(value);
  }
  throw std::runtime_error("no \"" + name + "\" in " + path);
}

// The instruction sets that change how kernels are chosen, hence results.
std::string instruction_sets() {
  std::istringstream words(" " + field_of("/proc/cpuinfo", "flags"));
  std::string chosen;
  for (std::string word; words >> word;) {
    const bool wanted = word.starts_with("avx") || word.starts_with("amx") || word.starts_with("sse4") || word == "fma" || word == "f16c";
    if (wanted) chosen += (chosen.empty() ? "" : " ") + word;
  }
  return chosen;
}

std::string affinity_count() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) throw std::runtime_error("sched_getaffinity failed");
  return std::to_string(CPU_COUNT(&set));
}

std::string cgroup_cpu_limit() {
  if (fs::exists("/sys/fs/cgroup/cpu.max")) return read_file("/sys/fs/cgroup/cpu.max");
  const std::string v1 = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us";
  if (fs::exists(v1)) return read_file(v1) + " " + read_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  const std::string group = field_of("/proc/self/cgroup", "0:");
  const std::string path = "/sys/fs/cgroup" + group.substr(group.find('/')) + "/cpu.max";
  return read_file(path);
}

std::string git_version() {
  int major = 0, minor = 0, patch = 0;
  git_libgit2_version(&major, &minor, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

std::string kernel() {
  utsname name{};
  if (uname(&name) != 0) throw std::runtime_error("uname failed");
  return std::string(name.sysname) + " " + name.release + " " + name.version + " " + name.machine;
}

void probe_host(Facts& facts, const std::string& folder) {
  probe(facts, "host.name", "gethostname", host_name);
  probe(facts, "host.boot_id", "/proc", boot_id);
  probe(facts, "os.kernel", "uname", kernel);
  probe(facts, "os.name", "/etc/os-release", [] {
    std::istringstream lines(read_file("/etc/os-release"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("PRETTY_NAME=")) return line.substr(12);
    }
    return std::string();
  });
  probe(facts, "cpu.model", "/proc/cpuinfo", [] { return field_of("/proc/cpuinfo", "model name"); });
  probe(facts, "cpu.instruction_sets", "/proc/cpuinfo", instruction_sets);
  probe(facts, "cpu.cores_online", "sysconf", [] { return std::to_string(sysconf(_SC_NPROCESSORS_ONLN)); });
  probe(facts, "cpu.affinity_count", "sched_getaffinity", affinity_count);
  probe(facts, "cpu.cgroup_limit", "cgroup cpu.max: quota and period in microseconds", cgroup_cpu_limit);
  probe(facts, "cpu.governor", "/sys", [] { return read_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"); });
  probe(facts, "memory.total", "/proc/meminfo", [] { return field_of("/proc/meminfo", "MemTotal"); });
  probe(facts, "memory.cgroup_limit", "cgroup memory.max: bytes", [] { return read_file("/sys/fs/cgroup/memory.max"); });
  probe(facts, "record.file_system", "statfs", [&] { return file_system_type(folder); });
}

void probe_build(Facts& facts) {
  probe(facts, "build.version", "build", [] { return std::string(kBuildVersion); });
  probe(facts, "build.compiler", "build", [] { return std::string(kBuildCompiler); });
  probe(facts, "build.flags", "build", [] { return std::string(kBuildFlags); });
  probe(facts, "build.type", "build", [] { return std::string(kBuildType); });
  probe(facts, "build.standard", "build", [] { return std::to_string(__cplusplus); });
  probe(facts, "library.glibc", "gnu_get_libc_version", [] { return std::string(gnu_get_libc_version()); });
  probe(facts, "library.sqlite", "sqlite3_libversion", [] { return std::string(sqlite3_libversion()); });
  probe(facts, "library.libgit2", "git_libgit2_version", git_version);
  probe(facts, "library.openssl", "OpenSSL_version", [] { return std::string(OpenSSL_version(OPENSSL_VERSION)); });
  probe(facts, "library.xxhash", "header",
        [] { return std::to_string(XXH_VERSION_MAJOR) + "." + std::to_string(XXH_VERSION_MINOR) + "." + std::to_string(XXH_VERSION_RELEASE); });
}

// Only what bears on a training run: an environment as a whole is full of secrets.
bool is_wanted(const std::string& name) {
  static constexpr std::array kPrefixes = {"OMP_",  "GOMP_",    "KMP_",   "MKL_",    "OPENBLAS_", "GLOO_",   "NCCL_",  "TORCH_", "PYTORCH_",
                                           "ATEN_", "CUDA_",    "CUBLAS", "CUDNN",   "DNNL_",     "ONEDNN_", "SLURM_", "OMPI_",  "PMI_",
                                           "PMIX_", "SAMERUN_", "LD_",    "MALLOC_", "TBB_",      "LC_",     "LOCAL_", "GROUP_"};
  static constexpr std::array kNames = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LANG", "TZ", "GLIBC_TUNABLES"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](const char* prefix) { return name.starts_with(prefix); }) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

void probe_variables(Facts& facts) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = text.substr(0, equals);
    if (is_wanted(name)) facts.push_back({"env." + name, redacted_value(name, text.substr(equals + 1)), "environment", ""});
  }
}

}  // namespace

std::vector<EnvironmentFact> probe_environment_for(const std::string& folder) {
  Facts facts;
  probe_host(facts, folder);
  probe_build(facts);
  probe_variables(facts);
  return facts;
}

std::vector<EnvironmentFact> probe_environment() {
  const std::string folder = default_folder();
  return probe_environment_for(fs::exists(folder) ? folder : ".");
}

}  // namespace samerun::recorder
