#include "record_access.h"

#include <cstdio>
#include <filesystem>

#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"

namespace samerun::cli {

namespace fs = std::filesystem;

namespace {

bool readable(const std::string& folder) {
  try {
    const recorder::Reader reader(folder);
    return true;
  } catch (const Error&) {
    return false;
  }
}

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

TwoRuns in_order(const recorder::Reader& reader, std::int64_t run_a, std::int64_t run_b) {
  const recorder::RunRow a = find_run(reader, run_a), b = find_run(reader, run_b);
  return candidacy(b) > candidacy(a) ? TwoRuns{b.id, a.id} : TwoRuns{a.id, b.id};
}

std::string record_folder(const std::string& folder_or_file) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder_or_file, ignored)) return folder_or_file;
  return fs::absolute(folder_or_file).parent_path().string();
}

void refresh_record(const std::string& folder_or_file) {
  const std::string folder = record_folder(folder_or_file);
  std::error_code ignored;
  if (!fs::exists(fs::path(folder) / "samerun.db", ignored)) return;  // Reading must not make a record.
  try {
    recorder::Store(folder).sweep();
  } catch (const Error& error) {
    if (!readable(folder)) return;  // The command says so itself, once.
    std::fprintf(stderr, "samerun: note: read without folding what crashed runs left: %s\n", error.what());
  }
}

}  // namespace samerun::cli
