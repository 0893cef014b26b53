#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

/// What was typed, one struct a command. Empty optionals were not typed: the environment or a default decides.
namespace samerun::cli {

/// What `launch`, `pair` and `resume-check` share.
struct RunFlags {
  std::optional<int> ranks, threads, timeout_s;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> backend, record_dir;
  bool quiet = false;
  std::vector<std::string> command;  ///< Program and arguments.
};

struct LaunchOptions : RunFlags {
  std::optional<std::string> checkpoint_dir;
  bool no_record = false, prefix = false;
};

struct ResumeOptions {
  std::int64_t run = 0;
  std::optional<std::string> checkpoint;  ///< A checkpoint's folder, in place of the newest one.
  std::optional<std::string> record_dir;
  bool quiet = false, prefix = false;
  std::vector<std::string> command;  ///< In place of the recorded command line; empty: that one.
};

struct PairOptions : RunFlags {
  std::optional<int> steps;
  int shadow_steps = 200;
  std::vector<std::string> candidate_env, reference_env;  ///< "NAME=value".
  std::string reference = "replay";
  bool strict = false, json = false, keep_captures = false, no_report = false;
  bool resume = false;  ///< A resume check follows.
};

struct ResumeCheckOptions : RunFlags {
  std::optional<int> steps;
  std::string points;                  ///< "3,3+1,6"; empty: chosen from the first run.
  std::vector<std::string> extra_env;  ///< "NAME=value" for every run.
  bool json = false, keep_checkpoints = false;
};

struct VerifyOptions {
  std::int64_t run_a = 0, run_b = 0;
  std::optional<std::string> record_dir;
  bool strict = false, json = false;
};

struct ReportOptions {
  std::string pair;  ///< Its id; the number of a run where `run_b` is given.
  std::optional<std::int64_t> run_b;
  std::optional<std::string> output, record_dir;
  bool strict = false;
};

struct RunsOptions {
  std::optional<std::string> record_dir;
  bool json = false;
};

struct ShowOptions {
  std::int64_t run = 0;
  std::optional<std::string> record_dir;
  bool json = false;
};

struct EnvOptions {
  bool json = false;
};

/// Nothing left to do but this text: help, the version, the table of flags.
struct PrintText {
  std::string text;
};

/// The command line was wrong.
struct UsageError {
  std::string text;
};

using Command = std::variant<LaunchOptions, ResumeOptions, PairOptions, ResumeCheckOptions, VerifyOptions, ReportOptions, RunsOptions, ShowOptions,
                             EnvOptions, PrintText, UsageError>;

}  // namespace samerun::cli
