#include <sys/mount.h>

#include <fstream>
#include <iterator>

#include "child_process.h"
#include "file_system.h"
#include "record_fixture.h"
#include "samerun/core/error.h"
#include "sqlite.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

class StoreTest : public RecordFixture {
 protected:
  std::string file() const { return record() + "/samerun.db"; }
  void put_file(const std::string& bytes) {
    fs::create_directories(record());
    std::ofstream(file(), std::ios::binary) << bytes;
  }
  /// What both sides say of the record, which must keep its bytes.
  void expect_refused(ErrorCode store_code, ErrorCode reader_code, const std::string& words) {
    const std::string before = bytes_of(file());
    expect_error([&] { Store store(record()); }, store_code, words);
    expect_error([&] { Reader reader(record()); }, reader_code, words);
    EXPECT_EQ(bytes_of(file()), before);
    EXPECT_EQ(std::distance(fs::directory_iterator(record()), fs::directory_iterator()), 1) << "no side files are left";
  }
  static void expect_error(const std::function<void()>& call, ErrorCode code, const std::string& words) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }
};

TEST_F(StoreTest, ANewerSchemaIsRefusedAndItsBytesStay) {
  { Store store(record()); }
  fs::remove(record() + "/.gitignore");
  Database(file(), Database::Mode::kReadWrite).execute("PRAGMA user_version = 3");
  expect_refused(ErrorCode::kStorage, ErrorCode::kStorage, "has schema version 3, this samerun knows up to 2: use a newer samerun");
}

TEST_F(StoreTest, ANewerRecordKeepsItsLogToo) {
  fs::create_directories(record());
  {
    // As a newer samerun that was killed leaves it: the version stands in the log only.
    Store store(folder_ + "/newer");
    Database database(folder_ + "/newer/samerun.db", Database::Mode::kReadWrite);
    database.execute("PRAGMA user_version = 3");
    for (const char* suffix : {"", "-wal"}) fs::copy_file(folder_ + "/newer/samerun.db" + suffix, file() + suffix);
  }
  const std::string before = bytes_of(file()), log = bytes_of(file() + "-wal");
  ASSERT_FALSE(log.empty());
  expect_error([&] { Store store(record()); }, ErrorCode::kStorage, "has schema version 3");
  EXPECT_EQ(bytes_of(file()), before);
  EXPECT_EQ(bytes_of(file() + "-wal"), log);
}

TEST_F(StoreTest, RandomBytesAreRefusedAndStay) {
  std::string noise(10'000, '\0');
  for (std::size_t i = 0; i < noise.size(); ++i) noise[i] = static_cast<char>(i * 2'654'435'761U >> 13);
  put_file(noise);
  expect_refused(ErrorCode::kCorruption, ErrorCode::kCorruption, "nothing was overwritten");
}

TEST_F(StoreTest, AShortFileIsRefusedAndStays) {
  put_file("hello");
  expect_refused(ErrorCode::kCorruption, ErrorCode::kCorruption, file());
}

TEST_F(StoreTest, ATruncatedRecordIsRefused) {
  {
    Store store(record());
    for (int i = 0; i < 20; ++i) store.begin_run(new_run());
  }
  fs::remove(record() + "/.gitignore");
  fs::resize_file(file(), fs::file_size(file()) / 2 + 100);
  expect_error([&] { Store(record()).begin_run(new_run()); }, ErrorCode::kCorruption, file());
}

TEST_F(StoreTest, AnotherProgramsDatabaseIsRefusedAndStays) {
  fs::create_directories(record());
  Database(file(), Database::Mode::kCreate).execute("CREATE TABLE theirs (x); PRAGMA application_id = 7");
  expect_refused(ErrorCode::kStorage, ErrorCode::kStorage, "not a Samerun record");
}

TEST_F(StoreTest, AFolderThatCannotBeMadeIsNamedWithAdvice) {
  std::ofstream(folder_ + "/file").flush();
  expect_error([&] { Store store(folder_ + "/file/record"); }, ErrorCode::kStorage, folder_ + "/file/record");
  expect_error([&] { Store store(folder_ + "/file"); }, ErrorCode::kStorage, "SAMERUN_DIR");
}

TEST_F(StoreTest, AFolderWithoutWriteRightIsNamedWithAdvice) {
  fs::create_directories(record());
  fs::permissions(folder_, fs::perms(0755));
  fs::permissions(record(), fs::perms(0555));
  ChildProcess child({RECORDER_HELPER, "nobody", "open", record()});
  const std::string said = child.line();
  EXPECT_EQ(said.find("storage: "), 0U) << said;
  EXPECT_NE(said.find(record()), std::string::npos) << said;
  EXPECT_NE(said.find("not writable"), std::string::npos) << said;
}

TEST_F(StoreTest, AFullDiskIsAStorageErrorAndTheRecordStaysWhole) {
  ChildProcess child({RECORDER_HELPER, "full", record()});
  const std::string said = child.line();
  EXPECT_EQ(said.find("storage: "), 0U) << said;
  EXPECT_EQ(child.wait(), 3);
  Store store(record());
  EXPECT_EQ(Database(file(), Database::Mode::kReadOnly).text("PRAGMA integrity_check"), "ok");
  EXPECT_GT(store.begin_run(new_run()), 0);
}

TEST_F(StoreTest, AReadOnlyRecordIsReadWhole) {
  std::int64_t run = 0;
  {
    Store store(record());
    run = store.begin_run(new_run());
    StagingWriter writer(staging_options(store.staging_folder(run)));
    for (int step = 0; step < 5; ++step) writer.on_step(step_number(step));
    writer.on_run_end({5, "finished", ""});
    store.end_run(run, "finished", 0, "", {});
    // As a copy taken while the launcher runs: the newest rows are in the log.
    ASSERT_TRUE(fs::exists(file() + "-wal"));
    fs::create_directories(folder_ + "/copy");
    fs::copy_file(file(), folder_ + "/copy/samerun.db");
    fs::copy_file(file() + "-wal", folder_ + "/copy/samerun.db-wal");
  }
  EXPECT_FALSE(fs::exists(file() + "-wal"));
  fs::permissions(folder_, fs::perms(0755));
  for (const std::string& folder : {record(), folder_ + "/copy"}) {
    fs::permissions(folder, fs::perms(0555));
    ChildProcess child({RECORDER_HELPER, "nobody", "read", folder});
    EXPECT_EQ(child.line(), std::to_string(run) + " 5") << folder;
  }
}

TEST_F(StoreTest, APlainFileNameIsReadToo) {
  { Store(record()).begin_run(new_run()); }
  EXPECT_EQ(Reader(file()).runs().size(), 1U);
}

TEST_F(StoreTest, AMissingAndAnEmptyRecordAreSaid) {
  expect_error([&] { Reader reader(record()); }, ErrorCode::kStorage, "no record at");
  put_file("");
  expect_error([&] { Reader reader(record()); }, ErrorCode::kStorage, "no run has been recorded");
}

TEST_F(StoreTest, VerdictsKeepTheirEvidence) {
  Store store(record());
  VerdictRow verdict;
  verdict.group_id = "g";
  verdict.candidate = 2;
  verdict.reference = 1;
  verdict.word = "different";
  verdict.evidence.push_back({"gradient", "different", "raw", "w", 3, 1, std::numeric_limits<double>::infinity(), 0.5, "text"});
  const std::int64_t id = store.add_verdict(verdict);
  verdict.word = "same";
  verdict.evidence.clear();
  store.add_verdict(verdict);
  verdict.group_id = "other";
  store.add_verdict(verdict);
  const auto rows = Reader(record()).verdicts("g");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].id, id);
  EXPECT_EQ(rows[0].candidate, 2);
  EXPECT_EQ(rows[0].reference, 1);
  EXPECT_EQ(rows[0].word, "different");
  EXPECT_GT(rows[0].created_utc_ns, 0);
  ASSERT_EQ(rows[0].evidence.size(), 1U);
  const EvidenceRow& evidence = rows[0].evidence[0];
  EXPECT_EQ(evidence.check + evidence.word + evidence.stage + evidence.tensor + evidence.text, "gradientdifferentrawwtext");
  EXPECT_EQ(evidence.step, 3);
  EXPECT_EQ(evidence.rank, 1);
  EXPECT_EQ(evidence.value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(evidence.limit, 0.5);
  EXPECT_EQ(rows[1].word, "same");
  EXPECT_TRUE(rows[1].evidence.empty());
}

TEST_F(StoreTest, RunsOfAGroupAreFound) {
  Store store(record());
  NewRun run = new_run(4);
  run.group_id = "pair-1";
  run.role = "candidate";
  const std::int64_t candidate = store.begin_run(run);
  store.begin_run(new_run());
  const auto rows = Reader(record()).group("pair-1");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].id, candidate);
  EXPECT_EQ(rows[0].role, "candidate");
  EXPECT_EQ(rows[0].world_size, 4);
  EXPECT_EQ(rows[0].status, "starting");
  store.heartbeat(candidate);
  EXPECT_EQ(Reader(record()).run(candidate)->status, "running");
}

/// A small file system of its own; needs the right to mount.
class SmallDisk {
 public:
  explicit SmallDisk(std::string folder) : folder_(std::move(folder)) {
    fs::create_directories(folder_);
    mounted_ = ::mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  void fill() const {
    std::ofstream file(folder_ + "/other", std::ios::binary);
    const std::string block(4096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }

 private:
  std::string folder_;
  bool mounted_ = false;
};

// A run whose launcher could not write its last rows was later shown as lost.
TEST_F(StoreTest, HowARunEndedIsKeptOnAFullDisk) {
  const SmallDisk disk(record());
  if (!disk.mounted()) GTEST_SKIP() << "needs the right to mount a small file system";
  Store store(record());
  NewRun run;
  run.argv = {"train"};
  const std::int64_t id = store.begin_run(run);
  disk.fill();
  store.end_run(id, "failed", 3, std::string(200000, 'm'), {{0, 1, std::nullopt, std::string(200000, 'e'), true}});
  const auto row = Reader(record()).run(id);
  EXPECT_EQ(row->status, "failed");
  EXPECT_EQ(row->exit_code, 3);
}

TEST(FileSystemTest, KnowsWhichOnesAreOfTheNetwork) {
  for (const char* type : {"nfs", "cifs", "smb2", "lustre", "gpfs", "ceph"}) EXPECT_TRUE(is_network_file_system(type)) << type;
  for (const char* type : {"ext4", "xfs", "tmpfs", "overlay", "0x1234", ""}) EXPECT_FALSE(is_network_file_system(type)) << type;
  EXPECT_EQ(file_system_type("/nonexistent/folder"), "");
  EXPECT_FALSE(file_system_type("/").empty());
}

}  // namespace
}  // namespace samerun::recorder
