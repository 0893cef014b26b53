#include <pmix_server.h>
#include <unistd.h>

#include <cstdlib>

#include "answer.h"
#include "job_keys.h"
#include "mpi_wireup.h"
#include "open_mpi.h"
#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

// What the server asks of its host, on PMIx's thread. Ranks are started, watched and stopped by the launcher, as without MPI.

pmix_status_t client_connected(const pmix_proc_t*, void*, pmix_info_t*, size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t client_finalized(const pmix_proc_t*, void*, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

/// MPI_Abort: the caller ends itself next, and the launcher then stops the others.
pmix_status_t abort_job(const pmix_proc_t*, void*, int, const char*, pmix_proc_t*, size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

/// All ranks are on this host, so the server has the data of all of them.
pmix_status_t fence(const pmix_proc_t*, size_t, const pmix_info_t*, size_t, char* data, size_t size, pmix_modex_cbfunc_t done, void* state) {
  done(PMIX_SUCCESS, data, size, state, std::free, data);
  return PMIX_SUCCESS;
}

/// A rank of another host is asked for.
pmix_status_t direct_modex(const pmix_proc_t*, const pmix_info_t*, size_t, pmix_modex_cbfunc_t, void*) {
  return PMIX_ERR_NOT_FOUND;
}

pmix_server_module_t& callbacks() {
  static pmix_server_module_t module = [] {
    pmix_server_module_t filled{};
    filled.client_connected2 = client_connected;
    filled.client_finalized = client_finalized;
    filled.abort = abort_job;
    filled.fence_nb = fence;
    filled.direct_modex = direct_modex;
    return filled;
  }();
  return module;
}

RankVariables split(char** entries) {
  RankVariables variables;
  for (char** entry = entries; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    variables[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  return variables;
}

/// The process's variables while the server starts; as they were before once it has, when PMIx's threads wait for work and read none.
class ServerEnvironment {
 public:
  ServerEnvironment() {
    // What another launcher set for its own server and clients is not for this one.
    for (const auto& [name, value] : split(environ)) {
      if (!of_another_mpi_launcher(name)) continue;
      removed_[name] = value;
      ::unsetenv(name.c_str());
    }
    // Data by socket, not in memory shared with the ranks: a rank that is killed there may hold a lock.
    set("PMIX_MCA_gds", "hash");
    // The machine's cores are looked at, and nothing is asked of displays and devices for it.
    if (std::getenv("HWLOC_COMPONENTS") == nullptr) set("HWLOC_COMPONENTS", "-gl,-opencl,-cuda,-nvml,-rsmi,-levelzero");
  }
  ~ServerEnvironment() {
    for (const char* name : set_) ::unsetenv(name);
    for (const auto& [name, value] : removed_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ServerEnvironment(const ServerEnvironment&) = delete;
  ServerEnvironment& operator=(const ServerEnvironment&) = delete;

 private:
  void set(const char* name, const char* value) {
    ::setenv(name, value, 1);
    set_.push_back(name);
  }

  std::vector<const char*> set_;
  RankVariables removed_;
};

pmix_proc_t process(const std::string& job, int rank) {
  pmix_proc_t process;
  PMIX_LOAD_PROCID(&process, job.c_str(), static_cast<pmix_rank_t>(rank));
  return process;
}

RankVariables variables_of(const pmix_proc_t& rank) {
  char** entries = nullptr;
  require_good(PMIx_server_setup_fork(&rank, &entries), "name the variables of rank " + std::to_string(rank.rank));
  RankVariables variables = split(entries);
  PMIX_ARGV_FREE(entries);
  // Open MPI 4.1 takes a process for a singleton, rank 0 of 1, unless a component claims it. That of jsrun leaves everything to PMIx, and is
  // asked before the others, such as Slurm's.
  variables["JSM_JSRUN_PORT"] = "1";
  return variables;
}

/// One in a process. Methods are for one thread; PMIx has two threads of its own, which block the signals that the caller blocks.
class PmixServer final : public MpiWireup {
 public:
  PmixServer() = default;
  /// Ends PMIx's threads.
  ~PmixServer() override;
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  std::string version() const override;
  std::vector<RankVariables> begin_job(const std::string& name, int world_size, const std::string& folder) override;
  void end_job(const std::string& name) override;

 private:
  void start(const std::string& folder);
  std::vector<RankVariables> make_known(const std::string& name, int world_size, const std::string& folder);

  bool started_ = false;
};

/// libpmix 4.2 cannot be started again once it has ended: its second listener aborts the process.
bool ended = false;

PmixServer::~PmixServer() {
  if (!started_ || Answer::given_up()) return;
  PMIx_server_finalize();
  ended = true;
}

std::string PmixServer::version() const {
  return open_mpi_version();
}

void PmixServer::start(const std::string& folder) {
  if (ended) throw Error(ErrorCode::kInternal, "the PMIx server of this process has ended, and cannot be started again");
  const ServerEnvironment environment;
  PmixInfo info;
  info.add(PMIX_SERVER_TMPDIR, folder);
  info.add(PMIX_SYSTEM_TMPDIR, folder);
  pmix_data_array_t& array = info.array();
  require_good(PMIx_server_init(&callbacks(), static_cast<pmix_info_t*>(array.array), array.size), "start its server");
  started_ = true;
}

std::vector<RankVariables> PmixServer::begin_job(const std::string& name, int world_size, const std::string& folder) {
  if (!started_) start(folder);
  try {
    return make_known(name, world_size, folder + "/" + name);
  } catch (const Error&) {
    end_job(name);
    throw;
  }
}

std::vector<RankVariables> PmixServer::make_known(const std::string& name, int world_size, const std::string& folder) {
  const auto info = std::make_shared<PmixInfo>();
  add_job_keys(*info, name, world_size, folder);
  pmix_data_array_t& array = info->array();
  complete("make job " + name + " known", info, [&](pmix_op_cbfunc_t done, void* state) {
    return PMIx_server_register_nspace(name.c_str(), world_size, static_cast<pmix_info_t*>(array.array), array.size, done, state);
  });
  std::vector<RankVariables> variables;
  for (int rank = 0; rank < world_size; ++rank) {
    const pmix_proc_t place = process(name, rank);
    complete("make rank " + std::to_string(rank) + " known", nullptr,
             [&](pmix_op_cbfunc_t done, void* state) { return PMIx_server_register_client(&place, ::getuid(), ::getgid(), nullptr, done, state); });
    variables.push_back(variables_of(place));
  }
  return variables;
}

void PmixServer::end_job(const std::string& name) {
  if (!started_ || Answer::given_up()) return;
  complete("forget job " + name, nullptr, [&](pmix_op_cbfunc_t done, void* state) {
    PMIx_server_deregister_nspace(name.c_str(), done, state);
    return PMIX_SUCCESS;
  });
}

}  // namespace
}  // namespace samerun::cli

extern "C" __attribute__((visibility("default"))) samerun::cli::MpiWireup* samerun_mpi_wireup() {
  return new samerun::cli::PmixServer;
}
