#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>

#include "command_line.h"
#include "commands.h"
#include "samerun/core/error.h"

namespace {

using namespace samerun;
using namespace samerun::cli;

constexpr int kUsage = 2;
constexpr int kFailed = 3;

struct Dispatch {
  int operator()(const LaunchOptions& options) const { return run_launch(options); }
  int operator()(const ResumeOptions& options) const { return run_resume(options); }
  int operator()(const PairOptions& options) const { return run_pair(options); }
  int operator()(const ResumeCheckOptions& options) const { return run_resume_check(options); }
  int operator()(const VerifyOptions& options) const { return run_verify(options); }
  int operator()(const ReportOptions& options) const { return run_report(options); }
  int operator()(const RunsOptions& options) const { return run_runs(options); }
  int operator()(const ShowOptions& options) const { return run_show(options); }
  int operator()(const EnvOptions& options) const { return run_env(options); }
  int operator()(const PrintText& print) const {
    std::fputs(print.text.c_str(), stdout);
    return 0;
  }
  int operator()(const UsageError& error) const {
    std::fprintf(stderr, "samerun: %s\n", error.text.c_str());
    return kUsage;
  }
};

int run(int argc, char** argv) {
  try {
    return std::visit(Dispatch{}, parse_command_line({argv + 1, argv + argc}));
  } catch (const Error& error) {
    std::fprintf(stderr, "samerun: %s\n", error.what());
    return error.code() == ErrorCode::kConfig || error.code() == ErrorCode::kInvalidArgument ? kUsage : kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "samerun: internal error, please report it: %s\n", error.what());
    return kFailed;
  }
}

/// A full disk must not look like success; ferror() tells also of what left the buffer earlier.
int flushed(int code) {
  const bool lost = std::fflush(stdout) != 0;
  if (!lost && std::ferror(stdout) == 0) return code;
  std::fprintf(stderr, "samerun: standard output could not be written%s%s; what was printed is not whole\n", lost ? ": " : "",
               lost ? std::strerror(errno) : "");
  return code == 0 ? kFailed : code;
}

}  // namespace

int main(int argc, char** argv) {
  return flushed(run(argc, argv));
}
