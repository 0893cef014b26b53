#include "checkpoint_store.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "outcome.h"
#include "safetensors.h"
#include "samerun/core/clock.h"
#include "samerun/core/file.h"
#include "sha256.h"
#include "trainable.h"

namespace samerun::detail {
namespace {

namespace fs = std::filesystem;
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr const char* kPartial = ".partial-";
constexpr const char* kDefaultName = "step-";

std::string rank_file(int rank) {
  char name[40];
  std::snprintf(name, sizeof name, "rank-%04d.safetensors", rank);
  return name;
}

/// Which file holds a leaf, and under which prefix of its path; texts that all ranks share are in kStateFile.
std::pair<std::string, std::string> place_of(const std::string& path, const Leaf& leaf, int rank) {
  if (leaf.per_rank) return {rank_file(rank), ""};
  if (!leaf.tensor.defined()) return {kStateFile, ""};
  return path.starts_with("model/") ? std::pair(std::string(kModelFile), std::string("model/"))
                                    : std::pair(std::string(kOptimizerFile), std::string("optimizer/"));
}

/// Writes files into the partial folder and remembers what they were.
class PartWriter {
 public:
  PartWriter(std::string folder, RankPart& part) : folder_(std::move(folder)), part_(part) {}

  void tensors(const std::string& name, const StateTree& tree, int rank, Metadata metadata) {
    TensorList list;
    for (const auto& [path, leaf] : tree.leaves) {
      const auto [file, prefix] = place_of(path, leaf, rank);
      if (file == name && leaf.tensor.defined()) list.emplace_back(path.substr(prefix.size()), leaf.tensor);
      if (file == name && !leaf.tensor.defined()) metadata[path] = leaf.text;
    }
    std::vector<ByteRange> ranges;
    write(name, [&](const ByteSink& sink) { ranges = write_safetensors(sink, list, metadata); });
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto& tensor = list[i].second;
      part_.tensors.push_back(
          {name, list[i].first, dtype_name(tensor), tensor.sizes().vec(), ranges[i].begin, ranges[i].end, to_hex(Leaf{tensor, "", false}.digest())});
    }
  }

  void text(const std::string& name, const std::string& text) {
    write(name, [&](const ByteSink& sink) { sink(text.data(), text.size()); });
  }

 private:
  void write(const std::string& name, const std::function<void(const ByteSink&)>& contents) {
    FileWriter file(folder_ + "/" + name);
    Sha256 sum;
    std::int64_t bytes = 0;
    contents([&](const void* data, std::size_t size) {
      file.write(data, size);
      sum.add(data, size);
      bytes += static_cast<std::int64_t>(size);
    });
    file.finish();
    part_.files.push_back({name, bytes, sum.hex()});
  }

  std::string folder_;
  RankPart& part_;
};

std::string state_text(const StateTree& tree) {
  auto json = nlohmann::json::object();
  for (const auto& [path, leaf] : tree.leaves) {
    if (!leaf.per_rank && !leaf.tensor.defined()) json[path] = leaf.text;
  }
  return json.dump(1) + "\n";
}

/// In the metadata of model.safetensors a tied name points to the one that is stored, as Hugging Face's writers have it.
Metadata model_metadata(const std::vector<std::vector<std::string>>& aliases) {
  Metadata metadata{{"format", "pt"}};
  for (const auto& names : aliases) {
    for (std::size_t i = 1; i < names.size(); ++i) metadata[names[i]] = names[0];
  }
  return metadata;
}

RankPart write_part(const SaveRequest& request, const std::string& folder, int rank) {
  RankPart part;
  PartWriter writer(folder, part);
  if (rank == 0) {
    writer.tensors(kModelFile, *request.tree, rank, model_metadata(request.header.aliases));
    writer.tensors(kOptimizerFile, *request.tree, rank, {});
    writer.text(kStateFile, state_text(*request.tree));
  }
  writer.tensors(rank_file(rank), *request.tree, rank, {});
  for (const auto& [path, leaf] : request.tree->leaves) {
    if (leaf.per_rank) part.leaves[path] = leaf.digest();
  }
  return part;
}

/// The manifest of a committed checkpoint; nullopt where the folder is none.
std::optional<Manifest> manifest_in(const std::string& folder) {
  try {
    return parse_manifest(read_file(folder + "/" + kManifestName));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Folders that a save has left which ended in the middle. That of a living save is locked.
void remove_stale(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with(kPartial)) continue;
    if (const auto lock = FolderLock::try_lock(entry.path())) remove_tree(entry.path());
  }
}

/// Rank 0's hold on the partial folder: while it lives no other save takes the folder for a dead one's. Removes what was not committed.
class PartialFolder {
 public:
  void make(const SaveRequest& request, const std::string& path) {
    std::error_code code;
    fs::create_directories(request.folder, code);
    if (code) throw Error(ErrorCode::kStorage, "cannot make the folder of checkpoints: " + code.message(), {{"folder", request.folder}});
    remove_stale(request.folder);
    make_folder(path);
    path_ = path;
    lock_ = FolderLock::try_lock(path);
  }
  /// In one step: before it the old folder is in place, or none; after it the new one.
  void place(const std::string& at) {
    if (!fs::exists(at)) {
      rename_path(path_, at);
      path_.clear();
      return;
    }
    if (!manifest_in(at)) throw Error(ErrorCode::kStorage, "a folder that is no checkpoint has this name; choose another", {{"folder", at}});
    exchange_paths(path_, at);  // what was there is now in the partial folder
  }
  void discard() {
    if (!path_.empty()) remove_tree(path_);
    path_.clear();
  }
  ~PartialFolder() {
    try {
      discard();
    } catch (const std::exception&) {
      // The next save removes it.
    }
  }

 private:
  std::string path_;
  std::unique_ptr<FolderLock> lock_;
};

std::optional<std::int64_t> step_of_name(const std::string& name) {
  const std::string prefix = kDefaultName;
  if (!name.starts_with(prefix) || name.size() == prefix.size() || name.size() > prefix.size() + 18) return std::nullopt;
  if (name.find_first_not_of("0123456789", prefix.size()) != std::string::npos) return std::nullopt;
  return std::stoll(name.substr(prefix.size()));
}

/// Removes the oldest steps beyond the limit. A name of the program's own choice and a folder that is no checkpoint are left alone.
void rotate(const SaveRequest& request) {
  if (request.total_limit <= 0) return;
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const auto& entry : fs::directory_iterator(request.folder)) {
    const auto name = entry.path().filename().string();
    const auto step = step_of_name(name);
    if (step && name != request.name && entry.is_directory() && manifest_in(entry.path())) found.emplace_back(*step, entry.path());
  }
  std::sort(found.begin(), found.end());
  const auto others = static_cast<std::size_t>(request.total_limit - (step_of_name(request.name) ? 1 : 0));
  for (std::size_t i = 0; i + others < found.size(); ++i) remove_tree(found[i].second);
}

Manifest complete(const SaveRequest& request, const std::vector<std::string>& parts) {
  auto manifest = request.header;
  manifest.name = request.name;
  manifest.world_size = static_cast<int>(parts.size());
  for (const auto& part : parts) manifest.ranks.push_back(parse_rank_part(part));
  for (const auto& [path, leaf] : request.tree->leaves) {
    if (!leaf.per_rank) manifest.shared[path] = leaf.digest();
  }
  return manifest;
}

Committed commit(Communicator& communicator, const SaveRequest& request) {
  const bool first = communicator.rank() == 0;
  const auto id = std::to_string(::getpid()) + "-" + std::to_string(monotonic_now_ns());
  const auto partial = request.folder + "/" + kPartial + request.name + "-" + gather_texts(communicator, first ? id : "")[0];
  Committed committed;
  committed.path = request.folder + "/" + request.name;
  PartialFolder folder;
  // Each of these is a barrier too.
  all_or_none(communicator, ErrorCode::kStorage, [&] {
    if (first) folder.make(request, partial);
  });
  std::string part;
  all_or_none(communicator, ErrorCode::kStorage, [&] { part = rank_part_text(write_part(request, partial, communicator.rank())); });
  const auto manifest = complete(request, gather_texts(communicator, part));
  committed.bytes = manifest.bytes();
  all_or_none(communicator, ErrorCode::kStorage, [&] {
    if (!first) return;
    const auto text = manifest_text(manifest);
    FileWriter file(partial + "/" + kManifestName);
    file.write(text.data(), text.size());
    file.finish();
    sync_folder(partial);
    folder.place(committed.path);
    sync_folder(request.folder);
    committed.manifest_sha256 = sha256_hex(text);
  });
  committed.manifest_sha256 = gather_texts(communicator, committed.manifest_sha256)[0];
  if (!first) return committed;
  try {
    folder.discard();
    rotate(request);
  } catch (const std::exception& error) {
    committed.warnings.push_back(std::string("old checkpoints could not be removed: ") + error.what());
  }
  return committed;
}

std::string verified_file(const std::string& folder, const Manifest& manifest, const std::string& name) {
  const auto* said = manifest.find(name);
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorCode::kCorruption, what + "; use another checkpoint", {{"file", folder + "/" + name}});
  };
  if (said == nullptr) fail("the manifest does not list this file");
  if (!fs::exists(folder + "/" + name)) fail("a file of the checkpoint is missing");
  auto bytes = read_file(folder + "/" + name);
  if (static_cast<std::int64_t>(bytes.size()) != said->bytes)
    fail("a file of the checkpoint has " + std::to_string(bytes.size()) + " bytes, and " + std::to_string(said->bytes) + " were written");
  if (sha256_hex(bytes) != said->sha256) fail("a file of the checkpoint is not what was written: its SHA-256 does not fit");
  return bytes;
}

void add_tensors(const std::string& bytes, const std::string& prefix, bool per_rank, StateTree& tree) {
  auto file = parse_safetensors(bytes);
  for (auto& [name, tensor] : file.tensors) tree.set(prefix + name, std::move(tensor), per_rank);
  if (!per_rank) return;
  for (auto& [path, text] : file.metadata) tree.set(path, std::move(text), per_rank);
}

StateTree read_tree(const std::string& folder, const Manifest& manifest, int rank) {
  StateTree tree;
  add_tensors(verified_file(folder, manifest, kModelFile), "model/", false, tree);
  add_tensors(verified_file(folder, manifest, kOptimizerFile), "optimizer/", false, tree);
  const auto texts = nlohmann::json::parse(verified_file(folder, manifest, kStateFile));
  for (const auto& [path, text] : texts.items()) tree.set(path, text.get<std::string>());
  add_tensors(verified_file(folder, manifest, rank_file(rank)), "", true, tree);
  auto expected = manifest.shared;
  expected.insert(manifest.ranks[static_cast<std::size_t>(rank)].leaves.begin(), manifest.ranks[static_cast<std::size_t>(rank)].leaves.end());
  if (const auto difference = first_difference(expected, digests_of(tree)))
    throw Error(ErrorCode::kCorruption, "the checkpoint's files do not hold what its manifest lists: " + *difference, {{"folder", folder}});
  return tree;
}

}  // namespace

std::string default_checkpoint_name(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "%s%08lld", kDefaultName, static_cast<long long>(step));
  return name;
}

Committed commit_checkpoint(Communicator& communicator, const SaveRequest& request) {
  try {
    return commit(communicator, request);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kStorage) throw;
    throw Error(ErrorCode::kCheckpoint, "checkpoint " + request.name + " was not written, those that were there stay: " + error.what());
  }
}

Loaded read_checkpoint(Communicator& communicator, const std::string& path) {
  Loaded loaded;
  loaded.path = path;
  std::string text;
  all_or_none(communicator, ErrorCode::kCorruption, [&] {
    if (!fs::is_directory(path))
      throw Error(ErrorCode::kCheckpoint,
                  "there is no such checkpoint: give load_state() what save_state() returned, or a name in options.checkpoint_dir",
                  {{"folder", path}});
    const auto file = path + "/" + kManifestName;
    if (!fs::exists(file))
      throw Error(ErrorCode::kCheckpoint, "not a committed checkpoint: it has no manifest.json; its save did not come to its end",
                  {{"folder", path}});
    text = read_file(file);
    try {
      loaded.manifest = parse_manifest(text);
    } catch (const Error& error) {
      throw Error(error.code(), error.what(), {{"file", file}});
    }
    if (loaded.manifest.world_size != communicator.world_size())
      throw Error(
          ErrorCode::kCheckpoint, "the checkpoint is of another number of ranks; start as many as it has",
          {{"checkpoint", std::to_string(loaded.manifest.world_size)}, {"this run", std::to_string(communicator.world_size())}, {"folder", path}});
  });
  const auto sums = gather_texts(communicator, sha256_hex(text));
  for (const auto& sum : sums) {
    if (sum != sums[0]) throw Error(ErrorCode::kCheckpoint, "the ranks read different checkpoints", {{"folder", path}});
  }
  all_or_none(communicator, ErrorCode::kCorruption, [&] { loaded.tree = read_tree(path, loaded.manifest, communicator.rank()); });
  return loaded;
}

std::string newest_checkpoint(const std::string& folder, std::vector<std::string>& passed_over) {
  std::pair<std::int64_t, std::int64_t> best{-1, -1};
  std::string path;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    if (!entry.is_directory() || entry.path().filename().string().starts_with(".")) continue;
    if (!fs::exists(entry.path() / kManifestName)) continue;
    const auto manifest = manifest_in(entry.path());
    if (!manifest) {
      passed_over.push_back(entry.path());
      continue;
    }
    const std::pair age{manifest->saved_utc_ns, manifest->position.optimizer_step};
    if (age <= best) continue;
    best = age;
    path = entry.path();
  }
  return path;
}

}  // namespace samerun::detail
