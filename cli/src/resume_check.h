#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "run_settings.h"

namespace samerun::recorder {
class Store;
}

namespace samerun::cli {

/// What a resume check is made of.
struct ResumeCheck {
  std::vector<std::string> command;
  RunSettings settings;
  std::string group;                         ///< Of its runs.
  std::map<std::string, std::string> extra;  ///< Variables for every run.
  std::int64_t steps = 0;                    ///< 0: chosen.
  std::string points;                        ///< Empty: chosen.
  bool json = false, quiet = false, keep_checkpoints = false;
};

/// Runs the program straight through, then for each point a run that saves and is killed, one that resumes in new
/// processes, and one that starts cold; prints the verdict on stdout and returns the exit code.
int check_resume(const ResumeCheck& check, recorder::Store& store);

}  // namespace samerun::cli
