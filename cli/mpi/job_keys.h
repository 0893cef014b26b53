#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <string>

namespace samerun::cli {

/// Keys and values for a call of PMIx, owned.
class PmixInfo {
 public:
  PmixInfo();
  ~PmixInfo();
  PmixInfo(const PmixInfo&) = delete;
  PmixInfo& operator=(const PmixInfo&) = delete;

  void add(const char* key, const void* value, pmix_data_type_t type);
  void add(const char* key, const std::string& text) { add(key, text.c_str(), PMIX_STRING); }
  void add(const char* key, std::uint32_t number) { add(key, &number, PMIX_UINT32); }
  void add(const char* key, PmixInfo& nested);
  /// After the last add().
  pmix_data_array_t& array();

 private:
  void* list_;
  pmix_data_array_t array_;
};

/// What ranks ask of a job whose ranks are all on this host: sizes, places, and `folder` for their files.
void add_job_keys(PmixInfo& info, const std::string& name, int world_size, const std::string& folder);

}  // namespace samerun::cli
