#include "run_steps.h"

#include <algorithm>
#include <cstdio>
#include <random>

#include "samerun/core/error.h"

namespace samerun::cli {

std::string new_group() {
  std::random_device random;
  char text[9];
  std::snprintf(text, sizeof text, "%08x", random());
  return text;
}

void report_failure(const LaunchResult& result, const std::string& role, const char* consequence) {
  std::fprintf(stderr, "samerun: %s (run %lld) failed: %s\nits output: %s\n%s", role.c_str(), static_cast<long long>(result.run),
               result.failure_text().c_str(), result.log.c_str(), consequence);
}

std::vector<LaunchResult> RunSteps::run_specs(Launcher& launcher, const std::vector<LaunchSpec>& specs) {
  try {
    return launcher.run(specs);
  } catch (const Error&) {
    if (!quiet_) std::fputs("failed\n", stderr);
    throw;
  }
}

std::vector<LaunchResult> RunSteps::run(Launcher& launcher, const std::vector<LaunchSpec>& specs, const std::string& text) {
  const int first = done_ + 1;
  done_ += static_cast<int>(specs.size());
  const std::string range = specs.size() == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(done_);
  if (!quiet_) std::fprintf(stderr, "[%s%s] %s ... ", range.c_str(), of_total().c_str(), text.c_str());
  const std::vector<LaunchResult> results = run_specs(launcher, specs);
  double seconds = 0;
  bool failed = false;
  for (const LaunchResult& result : results) {
    seconds = std::max(seconds, result.wall_seconds);
    failed |= !result.good();
  }
  if (!quiet_) std::fprintf(stderr, "%.1f s%s\n", seconds, failed ? ", failed" : "");
  return results;
}

std::string RunSteps::of_total() const {
  return total_ > 0 ? "/" + std::to_string(total_) : "";
}

void RunSteps::say(const std::string& text) {
  ++done_;
  if (!quiet_) std::fprintf(stderr, "[%d%s] %s\n", done_, of_total().c_str(), text.c_str());
}

}  // namespace samerun::cli
