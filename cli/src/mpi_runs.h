#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mpi_wireup.h"
#include "owned_folder.h"

namespace samerun::cli {

class MpiJob;

/// The MPI side of what one command starts: the server, once a job needs it, and the folder of its files and of the ranks' shared memory.
/// One thread.
class MpiRuns : public std::enable_shared_from_this<MpiRuns> {
 public:
  /// `required`: a run that cannot be wired up fails; otherwise it goes on without.
  MpiRuns(std::shared_ptr<MpiWireup> wireup, bool required) : wireup_(std::move(wireup)), required_(required) {}

  bool required() const { return required_; }
  /// Makes a job known, named by `run` (0: not recorded) and this process. Throws kLaunch, kStorage.
  std::unique_ptr<MpiJob> begin(std::int64_t run, int world_size);

 private:
  friend class MpiJob;

  std::unique_ptr<OwnedFolder> folder_;  // Outlives the server.
  std::shared_ptr<MpiWireup> wireup_;
  bool required_;
  int begun_ = 0;
};

/// One run whose ranks are wired up, until its processes have ended.
class MpiJob {
 public:
  MpiJob(std::shared_ptr<MpiRuns> runs, std::string name, int world_size);
  ~MpiJob();
  MpiJob(const MpiJob&) = delete;
  MpiJob& operator=(const MpiJob&) = delete;

  /// By rank.
  const std::vector<RankVariables>& variables() const { return variables_; }

 private:
  std::filesystem::path folder() const;
  void add_defaults();

  std::shared_ptr<MpiRuns> runs_;
  std::string name_;
  std::vector<RankVariables> variables_;
};

}  // namespace samerun::cli
