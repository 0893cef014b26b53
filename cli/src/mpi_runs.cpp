#include "mpi_runs.h"

#include <unistd.h>

#include <system_error>

#include "samerun/core/settings.h"

namespace samerun::cli {

std::unique_ptr<MpiJob> MpiRuns::begin(std::int64_t run, int world_size) {
  if (!folder_) folder_ = std::make_unique<OwnedFolder>();
  const std::string name = "samerun-" + std::to_string(run) + "-" + std::to_string(::getpid()) + "-" + std::to_string(++begun_);
  return std::make_unique<MpiJob>(shared_from_this(), name, world_size);
}

MpiJob::MpiJob(std::shared_ptr<MpiRuns> runs, std::string name, int world_size) : runs_(std::move(runs)), name_(std::move(name)) {
  std::error_code error;
  std::filesystem::create_directory(folder(), error);
  if (error) throw Error(ErrorCode::kStorage, "cannot make " + folder().string() + ": " + error.message());
  variables_ = runs_->wireup_->begin_job(name_, world_size, runs_->folder_->path().string());
  add_defaults();
}

MpiJob::~MpiJob() {
  try {
    runs_->wireup_->end_job(name_);
  } catch (const Error&) {
    // The server ends with the command; what it still keeps of the job harms no other.
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder(), ignored);
}

std::filesystem::path MpiJob::folder() const {
  return runs_->folder_->path() / name_;
}

/// What the user has not set otherwise, in the environment. How MPI runs is the ranks' affair (runtime/mpi).
void MpiJob::add_defaults() {
  RankVariables defaults;
  // Shared memory lies where it is removed even when the ranks are killed.
  for (const char* user : {"btl_vader", "osc_sm", "osc_rdma"}) defaults[std::string("OMPI_MCA_") + user + "_backing_directory"] = folder().string();
  for (const auto& [name, value] : defaults) {
    if (environment_text(name.c_str())) continue;
    for (RankVariables& variables : variables_) variables[name] = value;
  }
}

}  // namespace samerun::cli
