#include "samerun/verify/verify.h"

#include "commands.h"
#include "judge.h"
#include "record_access.h"
#include "run_settings.h"
#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"

namespace samerun::cli {
namespace {

recorder::RunRow find_run(const recorder::Reader& reader, std::int64_t id) {
  const auto run = reader.run(id);
  if (!run) throw Error(ErrorCode::kConfig, "the record has no run " + std::to_string(id) + "; samerun runs lists them");
  return *run;
}

/// How much a run looks like the one under test.
int candidacy(const recorder::RunRow& run) {
  return run.role.starts_with("candidate") ? 2 : run.world_size > 1 ? 1 : 0;
}

}  // namespace

int run_verify(const VerifyOptions& options) {
  Judging judging;
  judging.record = resolve_record_dir(options.record_dir);
  judging.strict = options.strict;
  judging.json = options.json;
  refresh_record(judging.record);
  {
    const recorder::Reader reader(judging.record);
    const recorder::RunRow a = find_run(reader, options.run_a), b = find_run(reader, options.run_b);
    const bool swapped = candidacy(b) > candidacy(a);
    judging.candidate = swapped ? b.id : a.id;
    judging.reference = swapped ? a.id : b.id;
  }
  return judge(judging, nullptr);
}

}  // namespace samerun::cli
