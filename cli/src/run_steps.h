#pragma once

#include <string>
#include <vector>

#include "launcher.h"

namespace samerun::cli {

/// The runs of a command that makes several, one line of progress each: "[2/9] reference, float64, 1 rank ... 3.7 s".
class RunSteps {
 public:
  /// `total` 0: not known yet.
  RunSteps(int total, bool quiet) : total_(total), quiet_(quiet) {}

  void set_total(int total) { total_ = total; }
  /// Runs `specs` at the same time. Throws what Launcher::run does, after the line has ended.
  std::vector<LaunchResult> run(Launcher& launcher, const std::vector<LaunchSpec>& specs, const std::string& text);
  LaunchResult run(Launcher& launcher, const LaunchSpec& spec, const std::string& text) {
    return run(launcher, std::vector<LaunchSpec>{spec}, text).front();
  }
  /// A run that is not made after all.
  void skip() { ++done_; }
  /// A step that starts no run.
  void say(const std::string& text);

 private:
  std::string of_total() const;
  std::vector<LaunchResult> run_specs(Launcher& launcher, const std::vector<LaunchSpec>& specs);

  int total_, done_ = 0;
  bool quiet_;
};

/// An id for the runs of one command: 8 hex digits.
std::string new_group();

/// "samerun: candidate (run 1) failed: ...", with where its output is; then `consequence`.
void report_failure(const LaunchResult& result, const std::string& role, const char* consequence);

/// The user, or the system, ended the launcher; what failed is then nobody's fault.
inline bool told_to_stop(const LaunchResult& result) {
  return result.exit_code > 128;
}

}  // namespace samerun::cli
