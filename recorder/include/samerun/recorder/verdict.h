#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace samerun::recorder {

struct EvidenceRow {
  std::string check, word, stage, tensor;
  std::int64_t step = -1;
  int rank = -1;
  double value = 0, limit = 0;
  std::string text;
};

/// What a comparison of two runs found.
struct VerdictRow {
  std::string group_id;
  std::int64_t candidate = 0, reference = 0;
  std::string word, summary;
  std::vector<EvidenceRow> evidence;
  std::int64_t id = 0, created_utc_ns = 0;  ///< Given by the record.
};

}  // namespace samerun::recorder
