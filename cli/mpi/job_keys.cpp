#include "job_keys.h"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

std::string host() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// "0,1,2": the ranks of the one host.
std::string all_ranks(int world_size) {
  std::string text;
  for (int rank = 0; rank < world_size; ++rank) text += (rank > 0 ? "," : "") + std::to_string(rank);
  return text;
}

/// Hosts, and the ranks of each, in the library's own notation.
void add_map(PmixInfo& info, const char* key, pmix_status_t (*generate)(const char*, char**), const std::string& text) {
  char* map = nullptr;
  if (generate(text.c_str(), &map) != PMIX_SUCCESS) throw Error(ErrorCode::kLaunch, std::string("PMIx cannot write the map of ranks ") + key);
  info.add(key, map, PMIX_REGEX);
  std::free(map);
}

void add_rank(PmixInfo& job, int rank) {
  PmixInfo keys;
  const auto global = static_cast<pmix_rank_t>(rank);
  const auto local = static_cast<std::uint16_t>(rank);
  keys.add(PMIX_RANK, &global, PMIX_PROC_RANK);
  keys.add(PMIX_GLOBAL_RANK, &global, PMIX_PROC_RANK);
  keys.add(PMIX_APP_RANK, &global, PMIX_PROC_RANK);
  keys.add(PMIX_LOCAL_RANK, &local, PMIX_UINT16);
  keys.add(PMIX_NODE_RANK, &local, PMIX_UINT16);
  keys.add(PMIX_APPNUM, 0);
  keys.add(PMIX_NODEID, 0);
  keys.add(PMIX_HOSTNAME, host());
  job.add(PMIX_PROC_INFO_ARRAY, keys);
}

}  // namespace

PmixInfo::PmixInfo() : list_(PMIx_Info_list_start()) {
  PMIX_DATA_ARRAY_INIT(&array_, PMIX_INFO);
}

PmixInfo::~PmixInfo() {
  PMIX_DATA_ARRAY_DESTRUCT(&array_);
  PMIx_Info_list_release(list_);
}

void PmixInfo::add(const char* key, const void* value, pmix_data_type_t type) {
  const pmix_status_t status = PMIx_Info_list_add(list_, key, value, type);
  if (status != PMIX_SUCCESS) throw Error(ErrorCode::kLaunch, std::string("PMIx does not take ") + key + ": " + PMIx_Error_string(status));
}

void PmixInfo::add(const char* key, PmixInfo& nested) {
  add(key, &nested.array(), PMIX_DATA_ARRAY);
}

pmix_data_array_t& PmixInfo::array() {
  if (array_.array == nullptr) PMIx_Info_list_convert(list_, &array_);
  return array_;
}

void add_job_keys(PmixInfo& info, const std::string& name, int world_size, const std::string& folder) {
  const auto size = static_cast<std::uint32_t>(world_size);
  const pmix_rank_t leader = 0;
  info.add(PMIX_JOBID, name);
  for (const char* key : {PMIX_UNIV_SIZE, PMIX_JOB_SIZE, PMIX_MAX_PROCS, PMIX_LOCAL_SIZE, PMIX_NODE_SIZE}) info.add(key, size);
  info.add(PMIX_NUM_NODES, 1);
  info.add(PMIX_NODEID, 0);
  info.add(PMIX_JOB_NUM_APPS, 1);
  info.add(PMIX_LOCALLDR, &leader, PMIX_PROC_RANK);
  info.add(PMIX_LOCAL_PEERS, all_ranks(world_size));
  add_map(info, PMIX_NODE_MAP, PMIx_generate_regex, host());
  add_map(info, PMIX_PROC_MAP, PMIx_generate_ppn, all_ranks(world_size));
  info.add(PMIX_TMPDIR, folder);
  info.add(PMIX_NSDIR, folder);
  for (int rank = 0; rank < world_size; ++rank) add_rank(info, rank);
}

}  // namespace samerun::cli
