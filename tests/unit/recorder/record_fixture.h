#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "samerun/core/event.h"
#include "samerun/recorder/reader.h"
#include "samerun/recorder/store.h"
#include "staging_writer.h"

namespace samerun::recorder {

/// A folder of its own for each test, removed at its end.
class RecordFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "samerun-recorder-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    std::error_code error;
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
    std::filesystem::remove_all(folder_, error);
  }
  std::string record() const { return folder_ + "/record"; }

  std::string folder_;
};

inline NewRun new_run(int world_size = 1) {
  NewRun run;
  run.world_size = world_size;
  run.argv = {"/bin/true", "--epochs", "2"};
  run.cwd = "/";
  return run;
}

inline RankStart rank_start(int rank, int world_size = 1) {
  RankStart start;
  start.rank = rank;
  start.world_size = world_size;
  start.pid = getpid();
  start.host = "host";
  start.build_id = "build";
  start.utc_ns = 5;
  start.monotonic_ns = 6;
  return start;
}

inline Step step_number(std::int64_t number) {
  Step step;
  step.step = number;
  step.position.data_seed = 0xffff'ffff'ffff'fff0;
  step.position.optimizer_step = number + 1;
  step.loss_numerator = 0.1 * static_cast<double>(number);
  step.loss_denominator = 32;
  return step;
}

inline TensorTrace tensor_trace(std::int64_t step, const std::string& name, std::size_t sketch = 4) {
  TensorTrace trace;
  trace.step = step;
  trace.stage = stage::kRaw;
  trace.name = name;
  trace.dtype = "float32";
  trace.shape = {3, 4};
  trace.numel = 12;
  trace.digest = digest_text(name + std::to_string(step));
  trace.norm = 1.5;
  trace.sketch.assign(sketch, 0.25);
  return trace;
}

inline StagingOptions staging_options(const std::string& folder, int rank = 0) {
  StagingOptions options;
  options.folder = folder;
  options.rank = rank;
  return options;
}

/// Polls until `condition` holds; false when it does not within a minute.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace samerun::recorder
