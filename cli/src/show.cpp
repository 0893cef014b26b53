#include <cstdio>

#include "commands.h"
#include "record_access.h"
#include "run_facts.h"
#include "run_settings.h"

namespace samerun::cli {

int run_show(const ShowOptions& options) {
  const std::string record = resolve_record_dir(options.record_dir);
  refresh_record(record);
  const RunFacts facts = gather_facts(recorder::Reader(record), options.run);
  std::fputs((options.json ? facts_json(facts) : facts_text(facts)).c_str(), stdout);
  return 0;
}

}  // namespace samerun::cli
