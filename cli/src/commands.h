#pragma once

#include "options.h"

/// One function a command; each returns the process's exit code and throws samerun::Error for what stopped it.
namespace samerun::cli {

int run_launch(const LaunchOptions& options);
int run_resume(const ResumeOptions& options);
int run_pair(const PairOptions& options);
int run_resume_check(const ResumeCheckOptions& options);
int run_verify(const VerifyOptions& options);
int run_report(const ReportOptions& options);
int run_runs(const RunsOptions& options);
int run_show(const ShowOptions& options);
int run_env(const EnvOptions& options);

}  // namespace samerun::cli
