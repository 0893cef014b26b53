#include "samerun/verify/verify.h"

#include "commands.h"
#include "judge.h"
#include "record_access.h"
#include "run_settings.h"
#include "samerun/recorder/reader.h"

namespace samerun::cli {

int run_verify(const VerifyOptions& options) {
  Judging judging;
  judging.record = resolve_record_dir(options.record_dir);
  judging.strict = options.strict;
  judging.json = options.json;
  refresh_record(judging.record);
  {
    const recorder::Reader reader(judging.record);
    const TwoRuns runs = in_order(reader, options.run_a, options.run_b);
    judging.candidate = runs.candidate;
    judging.reference = runs.reference;
  }
  return judge(judging, nullptr);
}

}  // namespace samerun::cli
