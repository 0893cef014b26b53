#include <git2.h>

#include <fstream>

#include "code_version.h"
#include "record_fixture.h"
#include "redact.h"
#include "samerun/recorder/environment.h"

namespace samerun::recorder {
namespace {

namespace fs = std::filesystem;

TEST(RedactTest, NamesOfSecretsAreKnown) {
  for (const char* name : {"SLURM_JWT_TOKEN", "SAMERUN_API_KEY", "MKL_PASSPHRASE", "nccl_secret"}) EXPECT_TRUE(names_a_secret(name)) << name;
  for (const char* name : {"OMP_NUM_THREADS", "GLOO_SOCKET_IFNAME"}) EXPECT_FALSE(names_a_secret(name)) << name;
}

TEST(RedactTest, CredentialsLeaveUrls) {
  EXPECT_EQ(without_credentials("https://me:pw@host/x.git"), "https://host/x.git");
  EXPECT_EQ(without_credentials("https://token@host"), "https://host");
  EXPECT_EQ(without_credentials("a=http://u:p@h/1 b=ftp://u:p@w@h/2"), "a=http://h/1 b=ftp://h/2");
  EXPECT_EQ(without_credentials("https://host/@scope/x"), "https://host/@scope/x");
  EXPECT_EQ(without_credentials("git@host:x.git"), "git@host:x.git");
}

TEST(RedactTest, SecretArgumentsAreReplacedAndOthersStay) {
  const std::vector<std::string> argv = {"./train",      "--api-key",  "abc", "--hf-token=def",
                                         "PASSWORD=ghi", "--key-size", "64",  "--max-tokens=9",
                                         "--secret",     "--x",        "y",   "--data=s3://k:v@bucket/d"};
  const std::vector<std::string> expected = {
      "./train",  "--api-key", "<redacted>", "--hf-token=<redacted>", "PASSWORD=<redacted>", "--key-size", "64", "--max-tokens=9",
      "--secret", "--x",       "y",          "--data=s3://bucket/d"};
  EXPECT_EQ(redacted_arguments(argv), expected);
}

class FactsTest : public RecordFixture {
 protected:
  static std::string value_of(const std::vector<EnvironmentFact>& facts, const std::string& key) {
    for (const EnvironmentFact& fact : facts) {
      if (fact.key == key) return fact.value;
    }
    return "(absent)";
  }
};

TEST_F(FactsTest, TheEnvironmentHoldsItsAllowListWithoutSecrets) {
  setenv("OMP_NUM_THREADS", "3", 1);
  setenv("NCCL_TEST_TOKEN", "hush", 1);
  setenv("GLOO_TEST_URL", "tcp://user:hush@host", 1);
  setenv("UNRELATED_SETTING", "hush", 1);
  const auto facts = probe_environment();
  for (const char* name : {"OMP_NUM_THREADS", "NCCL_TEST_TOKEN", "GLOO_TEST_URL", "UNRELATED_SETTING"}) unsetenv(name);
  EXPECT_EQ(value_of(facts, "env.OMP_NUM_THREADS"), "3");
  EXPECT_EQ(value_of(facts, "env.NCCL_TEST_TOKEN"), "<redacted>");
  EXPECT_EQ(value_of(facts, "env.GLOO_TEST_URL"), "tcp://host");
  EXPECT_EQ(value_of(facts, "env.UNRELATED_SETTING"), "(absent)");
  for (const EnvironmentFact& fact : facts) EXPECT_EQ(fact.value.find("hush"), std::string::npos) << fact.key;
}

TEST_F(FactsTest, EachFactHasAValueOrAReason) {
  const auto facts = probe_environment();
  for (const EnvironmentFact& fact : facts) {
    if (!fact.key.starts_with("env.")) {
      EXPECT_NE(fact.value.empty(), fact.why_null.empty()) << fact.key;
    }
  }
  for (const char* key : {"os.kernel", "cpu.cores_online", "memory.total", "build.compiler", "library.sqlite", "library.glibc"}) {
    EXPECT_FALSE(value_of(facts, key).empty()) << key;
  }
}

TEST_F(FactsTest, ARunKeepsNoSecretOfItsArguments) {
  NewRun run = new_run();
  run.argv = {"./train", "--password", "hush"};
  Store store(record());
  const std::int64_t id = store.begin_run(run);
  EXPECT_EQ(Reader(record()).run(id)->argv, (std::vector<std::string>{"./train", "--password", "<redacted>"}));
}

/// A repository with one commit that holds "tracked" with the text "one\n".
class CodeVersionTest : public RecordFixture {
 protected:
  void SetUp() override {
    RecordFixture::SetUp();
    git_libgit2_init();
    git_repository* repository = nullptr;
    ASSERT_EQ(git_repository_init(&repository, folder_.c_str(), 0), 0);
    write("tracked", "one\n");
    git_index* index = nullptr;
    git_oid tree_id, commit_id;
    git_tree* tree = nullptr;
    git_signature* author = nullptr;
    git_repository_index(&index, repository);
    git_index_add_bypath(index, "tracked");
    git_index_write(index);
    git_index_write_tree(&tree_id, index);
    git_tree_lookup(&tree, repository, &tree_id);
    git_signature_new(&author, "A", "a@example.com", 1, 0);
    ASSERT_EQ(git_commit_create(&commit_id, repository, "HEAD", author, author, nullptr, "first", tree, 0, nullptr), 0);
    head_ = git_oid_tostr_s(&commit_id);
    git_config* config = nullptr;
    git_repository_config(&config, repository);
    git_config_set_string(config, "remote.origin.url", "https://me:pw@example.com/x.git");
    git_config_free(config);
    git_signature_free(author);
    git_tree_free(tree);
    git_index_free(index);
    git_repository_free(repository);
  }
  void TearDown() override {
    git_libgit2_shutdown();
    RecordFixture::TearDown();
  }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ + "/" + name) << text; }

  std::string head_;
};

TEST_F(CodeVersionTest, ACleanTreeIsItsCommit) {
  const CodeVersion version = read_code_version(folder_);
  EXPECT_EQ(version.head, head_);
  EXPECT_EQ(version.dirty, false);
  EXPECT_FALSE(version.patch);
  EXPECT_EQ(version.untracked, "");
  EXPECT_EQ(version.remote, "https://example.com/x.git");
  EXPECT_EQ(version.why_null, "");
}

TEST_F(CodeVersionTest, UncommittedChangesAreKeptAsAPatch) {
  write("tracked", "two\n");
  write("new file", "x");
  fs::create_directories(folder_ + "/inner");
  const CodeVersion version = read_code_version(folder_ + "/inner");
  EXPECT_EQ(version.dirty, true);
  ASSERT_TRUE(version.patch);
  EXPECT_NE(version.patch->find("-one\n+two\n"), std::string::npos) << *version.patch;
  EXPECT_EQ(version.patch_sha256->size(), 64U);
  EXPECT_EQ(version.untracked, "new file\n");
}

TEST_F(CodeVersionTest, AHugePatchIsCutAndHashedWhole) {
  write("tracked", std::string(2 * kMostPatchBytes, 'x'));
  const CodeVersion first = read_code_version(folder_);
  write("tracked", std::string(2 * kMostPatchBytes, 'x') + "y");
  const CodeVersion second = read_code_version(folder_);
  ASSERT_TRUE(first.patch && second.patch);
  EXPECT_EQ(first.patch->size(), kMostPatchBytes);
  EXPECT_NE(first.why_null.find("patch cut"), std::string::npos) << first.why_null;
  EXPECT_NE(*first.patch_sha256, *second.patch_sha256);
}

TEST_F(CodeVersionTest, TheRecordItselfIsNoUntrackedFile) {
  NewRun run = new_run();
  run.cwd = folder_;
  { Store(record()).begin_run(run); }
  Store store(record());
  const std::int64_t id = store.begin_run(run);
  const auto code = Reader(record()).code(id);
  ASSERT_TRUE(code);
  EXPECT_EQ(code->head, head_);
  EXPECT_EQ(code->untracked, "");
}

TEST_F(FactsTest, OutsideARepositoryThereIsAReason) {
  const CodeVersion version = read_code_version("/proc");
  EXPECT_FALSE(version.head);
  EXPECT_EQ(version.why_null, "not in a git repository");
}

}  // namespace
}  // namespace samerun::recorder
