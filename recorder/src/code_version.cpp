#include "code_version.h"

#include <git2.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <stdexcept>

#include "redact.h"

namespace samerun::recorder {
namespace {

template <class T, void (*release)(T*)>
struct Release {
  void operator()(T* object) const { release(object); }
};
template <class T, void (*release)(T*)>
using Owned = std::unique_ptr<T, Release<T, release>>;
using Repository = Owned<git_repository, git_repository_free>;
using Reference = Owned<git_reference, git_reference_free>;
using Commit = Owned<git_commit, git_commit_free>;
using Tree = Owned<git_tree, git_tree_free>;
using Diff = Owned<git_diff, git_diff_free>;
using Config = Owned<git_config, git_config_free>;
using StatusList = Owned<git_status_list, git_status_list_free>;
using DigestContext = Owned<EVP_MD_CTX, EVP_MD_CTX_free>;

struct GitSession {
  GitSession() { git_libgit2_init(); }
  ~GitSession() { git_libgit2_shutdown(); }
};

void check(int result, const char* doing) {
  if (result >= 0) return;
  const git_error* error = git_error_last();
  throw std::runtime_error(std::string(doing) + ": " + (error != nullptr && error->message != nullptr ? error->message : "unknown error"));
}

// A run must not wait for minutes because its repository is huge.
struct Deadline {
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  bool passed() const { return std::chrono::steady_clock::now() > end; }
};

int on_progress(const git_diff*, const char*, const char*, void* payload) {
  return static_cast<const Deadline*>(payload)->passed() ? GIT_EUSER : 0;
}

struct PatchSink {
  explicit PatchSink(const Deadline& limit) : deadline(&limit), digest(EVP_MD_CTX_new()) { EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr); }
  void add(const char* data, std::size_t size) {
    EVP_DigestUpdate(digest.get(), data, size);
    total += size;
    text.append(data, std::min(size, kMostPatchBytes - text.size()));
  }
  std::string sha256() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned int size = 0;
    EVP_DigestFinal_ex(digest.get(), bytes.data(), &size);
    static constexpr char kHex[] = "0123456789abcdef";
    std::string hex;
    for (unsigned int i = 0; i < size; ++i) {
      hex += kHex[bytes[i] >> 4];
      hex += kHex[bytes[i] & 15];
    }
    return hex;
  }
  const Deadline* deadline;
  DigestContext digest;
  std::string text;
  std::size_t total = 0;
};

int on_line(const git_diff_delta*, const git_diff_hunk*, const git_diff_line* line, void* payload) {
  auto* sink = static_cast<PatchSink*>(payload);
  if (sink->deadline->passed()) return GIT_EUSER;
  if (line->origin == GIT_DIFF_LINE_CONTEXT || line->origin == GIT_DIFF_LINE_ADDITION || line->origin == GIT_DIFF_LINE_DELETION) {
    sink->add(&line->origin, 1);
  }
  sink->add(line->content, line->content_len);
  return 0;
}

void read_head(git_repository* repository, CodeVersion& version, Tree& tree) {
  git_reference* raw_head = nullptr;
  const int result = git_repository_head(&raw_head, repository);
  if (result == GIT_EUNBORNBRANCH) {
    version.why_null = "no commit yet";
    return;
  }
  check(result, "HEAD");
  const Reference head(raw_head);
  if (git_reference_is_branch(head.get()) != 0) version.branch = git_reference_shorthand(head.get());
  git_object* raw_commit = nullptr;
  check(git_reference_peel(&raw_commit, head.get(), GIT_OBJECT_COMMIT), "HEAD");
  const Commit commit(reinterpret_cast<git_commit*>(raw_commit));
  version.head = git_oid_tostr_s(git_commit_id(commit.get()));
  git_tree* raw_tree = nullptr;
  check(git_commit_tree(&raw_tree, commit.get()), "HEAD's tree");
  tree.reset(raw_tree);
}

void read_remote(git_repository* repository, CodeVersion& version) {
  git_config* raw = nullptr;
  // Not git_remote_lookup(): in libgit2 1.5 it leaks 20 KB for each line of the configuration.
  if (git_repository_config_snapshot(&raw, repository) < 0) return;
  const Config config(raw);
  const char* url = nullptr;
  if (git_config_get_string(&url, config.get(), "remote.origin.url") == 0) version.remote = without_credentials(url);
}

void read_patch(git_repository* repository, git_tree* tree, const Deadline& deadline, CodeVersion& version) {
  git_diff_options options = GIT_DIFF_OPTIONS_INIT;
  options.flags = GIT_DIFF_SHOW_BINARY;
  options.progress_cb = on_progress;
  options.payload = const_cast<Deadline*>(&deadline);
  git_diff* raw = nullptr;
  check(git_diff_tree_to_workdir_with_index(&raw, repository, tree, &options), "diff of HEAD and working tree");
  const Diff diff(raw);
  version.dirty = git_diff_num_deltas(diff.get()) > 0;
  if (!*version.dirty) return;
  PatchSink sink(deadline);
  check(git_diff_print(diff.get(), GIT_DIFF_FORMAT_PATCH, on_line, &sink), "diff of HEAD and working tree");
  version.patch_sha256 = sink.sha256();
  if (sink.total > sink.text.size()) {
    version.why_null = "patch cut: first " + std::to_string(sink.text.size()) + " of " + std::to_string(sink.total) + " bytes";
  }
  version.patch = std::move(sink.text);
}

void read_untracked(git_repository* repository, CodeVersion& version) {
  git_status_options options = GIT_STATUS_OPTIONS_INIT;
  options.show = GIT_STATUS_SHOW_WORKDIR_ONLY;
  options.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED;
  git_status_list* raw = nullptr;
  check(git_status_list_new(&raw, repository, &options), "list of untracked files");
  const StatusList list(raw);
  std::string text;
  std::size_t found = 0;
  for (std::size_t i = 0; i < git_status_list_entrycount(list.get()); ++i) {
    const git_status_entry* entry = git_status_byindex(list.get(), i);
    if ((entry->status & GIT_STATUS_WT_NEW) == 0 || ++found > kMostUntracked) continue;
    text += std::string(entry->index_to_workdir->new_file.path) + '\n';
  }
  if (found > kMostUntracked) {
    version.why_null += (version.why_null.empty() ? "" : "; ") + std::string("untracked cut: first ") + std::to_string(kMostUntracked) + " of " +
                        std::to_string(found);
  }
  version.untracked = std::move(text);
}

void read_all(const std::string& folder, CodeVersion& version) {
  const GitSession session;
  git_repository* raw = nullptr;
  const int result = git_repository_open_ext(&raw, folder.c_str(), 0, nullptr);
  if (result == GIT_ENOTFOUND) {
    version.why_null = "not in a git repository";
    return;
  }
  if (result == GIT_EOWNER) {
    version.why_null = "the git repository belongs to another user: add it to git's safe.directory";
    return;
  }
  check(result, "git repository");
  const Repository repository(raw);
  Tree tree;
  read_head(repository.get(), version, tree);
  read_remote(repository.get(), version);
  if (git_repository_is_bare(repository.get()) != 0) {
    version.why_null = "a bare repository";
    return;
  }
  const Deadline deadline;
  if (tree) read_patch(repository.get(), tree.get(), deadline, version);
  if (deadline.passed()) throw std::runtime_error("the repository takes longer than 10 s to compare");
  read_untracked(repository.get(), version);
}

}  // namespace

CodeVersion read_code_version(const std::string& folder) {
  CodeVersion version;
  try {
    read_all(folder, version);
  } catch (const std::exception& error) {
    version.why_null = error.what();
  }
  return version;
}

}  // namespace samerun::recorder
