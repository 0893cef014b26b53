// The commit protocol on one rank: whatever ends a save, the folder holds the old checkpoint or the new one, and never a torn one.
#include "checkpoint_store.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "launch_environment.h"
#include "samerun/core/error.h"
#include "samerun/core/file.h"
#include "sha256.h"

namespace samerun::detail {
namespace {

namespace fs = std::filesystem;

int changes = 0, act_at = -1;

void die_there(FileStep, const std::string&) {
  if (++changes == act_at) ::raise(SIGKILL);
}
void fail_there(FileStep, const std::string& path) {
  if (++changes == act_at) throw Error(ErrorCode::kStorage, "cannot write: No space left on device", {{"file", path}});
}

StateTree tree_of(std::int64_t step) {
  StateTree tree;
  tree.set("model/weight", torch::full({2, 3}, static_cast<double>(step)));
  tree.set("model/count", torch::full({}, step, at::kLong));
  tree.set("optimizer/weight/exp_avg", torch::full({2, 3}, 0.5 * static_cast<double>(step)));
  tree.set("optimizer/weight/step", step);
  tree.set("position/optimizer_step", step);
  tree.set("rank/generator", torch::arange(5), true);
  tree.set("user/trail/text", "step " + std::to_string(step), true);
  return tree;
}

class CheckpointStoreTest : public testing::Test {
 protected:
  CheckpointStoreTest() : communicator_(make_communicator(LaunchInfo{}, 10)) {
    std::string pattern = (fs::temp_directory_path() / "samerun-checkpoint-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder");
    folder_ = pattern;
  }
  ~CheckpointStoreTest() override {
    file_hook = nullptr;
    fs::remove_all(folder_);
  }

  Committed save(std::int64_t step, const std::string& name = "", std::int64_t limit = 0) const {
    const auto tree = tree_of(step);
    SaveRequest request;
    request.folder = folder_;
    request.name = name.empty() ? default_checkpoint_name(step) : name;
    request.header.position.optimizer_step = step;
    request.header.saved_utc_ns = 1000 + step;
    request.tree = &tree;
    request.total_limit = limit;
    return commit_checkpoint(*communicator_, request);
  }
  Loaded load(const std::string& path) const { return read_checkpoint(*communicator_, path); }
  std::string newest() const {
    std::vector<std::string> passed_over;
    const auto found = newest_checkpoint(folder_, passed_over);
    EXPECT_TRUE(passed_over.empty()) << passed_over.front();
    return found;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_)) found.insert(entry.path().filename());
    return found;
  }
  /// The step of a checkpoint all of whose leaves are that step's.
  std::int64_t whole_step(const std::string& at) const {
    const auto loaded = load(at);
    const auto step = loaded.manifest.position.optimizer_step;
    EXPECT_EQ(first_difference(digests_of(tree_of(step)), digests_of(loaded.tree)), std::nullopt);
    return step;
  }
  /// Runs `act` in a process of its own that dies at the `at`-th change to the file system; false where it came to its end.
  static bool dies(int at, const std::function<void()>& act) {
    const auto child = ::fork();
    if (child == 0) {
      changes = 0;
      act_at = at;
      file_hook = &die_there;
      act();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }
  void expect_refused(const std::string& at, ErrorCode code, const std::string& text) const {
    try {
      load(at);
      ADD_FAILURE() << "loaded: " << text;
    } catch (const Error& error) {
      const std::string what = error.what();
      EXPECT_EQ(error.code(), code) << what;
      EXPECT_NE(what.find(text), std::string::npos) << what;
      EXPECT_EQ(what.find('\n'), std::string::npos) << what;
    }
  }

  fs::path folder_;
  std::shared_ptr<Communicator> communicator_;
};

TEST_F(CheckpointStoreTest, WhatWasSavedComesBackBitForBit) {
  const auto committed = save(7);
  EXPECT_EQ(committed.path, path("step-00000007"));
  EXPECT_EQ(whole_step(committed.path), 7);
  EXPECT_EQ(load(committed.path).tree.text("user/trail/text"), "step 7");
  EXPECT_EQ(names(), std::set<std::string>{"step-00000007"});
}

TEST_F(CheckpointStoreTest, KilledAtAnyChangeToTheFileSystemItLeavesTheOldCheckpointOrTheNewOne) {
  save(1);
  bool dead = true, seen_old = false, seen_new = false;
  int points = 0;
  for (int k = 1; dead; ++k) {
    dead = dies(k, [&] { save(2, "", 1); });
    const auto found = newest();
    ASSERT_FALSE(found.empty()) << "nothing is left at point " << k;
    const auto step = whole_step(found);
    (step == 1 ? seen_old : seen_new) = true;
    if (!dead) break;
    points = k;
    fs::remove_all(path("step-00000002"));
    if (!fs::exists(path("step-00000001"))) save(1);
  }
  EXPECT_GT(points, 25) << "create, write and sync of each file, the manifest, the folder, the rename, the rotation";
  EXPECT_TRUE(seen_old && seen_new);
  EXPECT_EQ(names(), std::set<std::string>{"step-00000002"}) << "the last save has removed what the dead ones left";
}

TEST_F(CheckpointStoreTest, KilledAtAnyPointWhileANameIsReplacedItHoldsTheOldCheckpointOrTheNewOne) {
  save(1, "best");
  bool dead = true;
  for (int k = 1; dead; ++k) {
    dead = dies(k, [&] { save(2, "best"); });
    const auto step = whole_step(path("best"));
    EXPECT_TRUE(step == 1 || step == 2) << step;
    if (step == 2 && dead) save(1, "best");
  }
  EXPECT_EQ(whole_step(path("best")), 2);
  EXPECT_EQ(names(), std::set<std::string>{"best"});
}

TEST_F(CheckpointStoreTest, WhereTheDiskIsFullTheSaveFailsAndNothingOfItStays) {
  save(1);
  int failed = 0;
  for (int k = 1;; ++k) {
    changes = 0;
    act_at = k;
    file_hook = &fail_there;
    bool refused = false;
    try {
      save(2);
    } catch (const Error& error) {
      refused = true;
      EXPECT_EQ(error.code(), ErrorCode::kCheckpoint);
      EXPECT_NE(std::string(error.what()).find("was not written, those that were there stay"), std::string::npos) << error.what();
    }
    file_hook = nullptr;
    if (!refused) break;
    ++failed;
    EXPECT_EQ(whole_step(path("step-00000001")), 1);
    if (fs::exists(path("step-00000002"))) {  // the folder's own sync failed, after the rename
      EXPECT_EQ(whole_step(path("step-00000002")), 2);
    }
    for (const auto& name : names()) EXPECT_FALSE(name.starts_with(".partial-")) << "point " << k;
    fs::remove_all(path("step-00000002"));
  }
  EXPECT_GT(failed, 25);
}

TEST_F(CheckpointStoreTest, OnlyTheNewestStepsAreKeptInOrderOfNumbers) {
  for (std::int64_t step = 0; step <= 10; ++step) save(step, "", 2);
  EXPECT_EQ(names(), (std::set<std::string>{"step-00000009", "step-00000010"}));
  save(123456789, "", 1);
  EXPECT_EQ(names(), std::set<std::string>{"step-123456789"}) << "more digits than the name is padded to";
}

TEST_F(CheckpointStoreTest, RotationLeavesForeignFoldersAndNamedCheckpointsAlone) {
  fs::create_directories(path("step-00000003"));
  std::ofstream(path("step-00000003/mine.txt")) << "not a checkpoint";
  fs::create_directories(path("step-x"));
  save(1, "best", 1);
  for (std::int64_t step = 4; step <= 6; ++step) save(step, "", 1);
  EXPECT_EQ(names(), (std::set<std::string>{"best", "step-00000003", "step-00000006", "step-x"}));
}

TEST_F(CheckpointStoreTest, TheOneJustWrittenStaysEvenWhereOlderStepsAreLater) {
  save(8, "", 1);
  save(2, "", 1);
  EXPECT_EQ(names(), std::set<std::string>{"step-00000002"});
}

TEST_F(CheckpointStoreTest, SavingTwiceAtOneStepReplacesAndAFolderThatIsNoCheckpointIsNotTouched) {
  save(5);
  save(5);
  EXPECT_EQ(names(), std::set<std::string>{"step-00000005"});
  fs::create_directories(path("mine/deep"));
  try {
    save(6, "mine");
    ADD_FAILURE() << "replaced";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCheckpoint);
    EXPECT_NE(std::string(error.what()).find("a folder that is no checkpoint has this name"), std::string::npos) << error.what();
  }
  EXPECT_EQ(names(), (std::set<std::string>{"mine", "step-00000005"}));
}

TEST_F(CheckpointStoreTest, AnotherSaveUnderWayKeepsItsFolder) {
  fs::create_directories(path(".partial-step-00000001-1-1"));
  fs::create_directories(path(".partial-step-00000002-2-2"));
  const auto lock = FolderLock::try_lock(path(".partial-step-00000002-2-2"));
  ASSERT_NE(lock, nullptr);
  save(3);
  EXPECT_EQ(names(), (std::set<std::string>{".partial-step-00000002-2-2", "step-00000003"}));
}

TEST_F(CheckpointStoreTest, TheNewestIsTheOneSavedLastAndDamagedOnesArePassedOver) {
  save(3);
  save(9);
  save(4, "late");
  std::vector<std::string> passed_over;
  EXPECT_EQ(newest_checkpoint(folder_, passed_over), path("step-00000009"));
  std::ofstream(path("step-00000009/manifest.json")) << "{}";
  EXPECT_EQ(newest_checkpoint(folder_, passed_over), path("late"));
  EXPECT_EQ(passed_over, std::vector<std::string>{path("step-00000009")});
  EXPECT_EQ(newest_checkpoint(path("nowhere"), passed_over), "");
}

TEST_F(CheckpointStoreTest, AFlippedBitInAnyFileIsFoundBeforeAnythingIsParsed) {
  const auto at = save(3).path;
  for (const auto& entry : fs::directory_iterator(at)) {
    const auto file = entry.path().string();
    const auto bytes = read_file(file);
    for (const std::size_t place : {std::size_t{0}, bytes.size() / 3, bytes.size() / 2, bytes.size() - 2}) {
      auto flipped = bytes;
      flipped[place] = static_cast<char>(flipped[place] ^ 4);
      std::ofstream(file, std::ios::binary) << flipped;
      expect_refused(at, ErrorCode::kCorruption, entry.path().filename().string());
    }
    std::ofstream(file, std::ios::binary) << bytes;
  }
  EXPECT_EQ(whole_step(at), 3);
}

TEST_F(CheckpointStoreTest, AShorterOrMissingFileIsNamed) {
  const auto at = save(3).path;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json", "rank-0000.safetensors"}) {
    const auto file = at + "/" + name;
    const auto bytes = read_file(file);
    std::ofstream(file, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
    expect_refused(at, ErrorCode::kCorruption, name);
    fs::remove(file);
    expect_refused(at, ErrorCode::kCorruption, std::string("is missing"));
    std::ofstream(file, std::ios::binary) << bytes;
  }
}

TEST_F(CheckpointStoreTest, AFolderThatIsNoCommittedCheckpointIsRefused) {
  const auto at = save(3).path;
  const auto manifest = read_file(at + "/manifest.json");
  expect_refused(path("nowhere"), ErrorCode::kCheckpoint, "there is no such checkpoint");
  for (const char* garbage : {"", "{", "{}", "[1, 2]", "not json at all"}) {
    std::ofstream(at + "/manifest.json") << garbage;
    expect_refused(at, ErrorCode::kCorruption, "manifest.json");
  }
  fs::remove(at + "/manifest.json");
  expect_refused(at, ErrorCode::kCheckpoint, "its save did not come to its end");
}

TEST_F(CheckpointStoreTest, FilesOfAnotherCheckpointAreNotTakenForItsOwn) {
  const auto at = save(3).path;
  const auto other = save(4).path;
  fs::copy_file(other + "/model.safetensors", at + "/model.safetensors", fs::copy_options::overwrite_existing);
  expect_refused(at, ErrorCode::kCorruption, "model.safetensors");
}

/// A manifest with something changed in it by one who computes its sum anew.
std::string edited(const Manifest& manifest, const std::string& from, const std::string& to) {
  auto text = manifest_text(manifest);
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  text.replace(place, from.size(), to);
  const std::string own = "\"manifest_sha256\": \"";
  text.replace(text.find(own) + own.size(), 64, 64, '0');
  text.replace(text.find(own) + own.size(), 64, sha256_hex(text));
  return text;
}

TEST_F(CheckpointStoreTest, ANewerFormatAndAnotherNumberOfRanksAreSaid) {
  const auto at = save(3).path;
  const auto manifest = load(at).manifest;
  std::ofstream(at + "/manifest.json") << edited(manifest, "\"format\": 1", "\"format\": 2");
  expect_refused(at, ErrorCode::kCheckpoint, "written by a newer Samerun");
  auto two = manifest;
  two.world_size = 2;
  two.ranks.push_back(two.ranks[0]);
  std::ofstream(at + "/manifest.json") << manifest_text(two);
  expect_refused(at, ErrorCode::kCheckpoint, "(checkpoint=2, folder=");
}

TEST_F(CheckpointStoreTest, ALeafThatItsFilesDoNotHoldIsNamed) {
  const auto at = save(3).path;
  auto manifest = load(at).manifest;
  manifest.shared["optimizer/weight/exp_avg_sq"] = Digest{};
  std::ofstream(at + "/manifest.json") << manifest_text(manifest);
  expect_refused(at, ErrorCode::kCorruption, "leaf optimizer/weight/exp_avg_sq is lost");
}

}  // namespace
}  // namespace samerun::detail
