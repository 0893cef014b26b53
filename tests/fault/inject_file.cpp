// Faults in the files of a checkpoint, right after it was committed: `file` 0 model, 1 optimizer, 2 rank 1's, 3 state.json, 4 the manifest.
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "inject.h"
#include "samerun/core/error.h"

namespace samerun::fault {
namespace {

namespace fs = std::filesystem;

std::string file_name(const Settings& settings) {
  static const std::array<const char*, 5> kNames{"model.safetensors", "optimizer.safetensors", "rank-0001.safetensors", "state.json",
                                                 "manifest.json"};
  return kNames.at(static_cast<std::size_t>(settings.integer("file", 0)));
}

using Change = std::function<void(const fs::path& file)>;

/// Only what a resume check has asked for is changed, not what the program saves on its way there.
void change_committed(Seams& seams, const Settings& settings, const Change& change) {
  if (std::getenv(env::kSaveAt) == nullptr) return;
  seams.checkpoint_committed = [=](const std::string& folder, const detail::CheckpointContext&) {
    if (fs::path(folder).filename() == "save-at") change(fs::path(folder) / file_name(settings));
  };
}

// Bit `bit` of a float near the end is the other way round: 0 the lowest, 23 the exponent's lowest.
void bit_flipped(Seams& seams, const Settings& settings) {
  change_committed(seams, settings, [settings](const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto at = static_cast<std::streamoff>(fs::file_size(path) / 4 * 4) - 8;
    std::uint32_t word = 0;
    file.seekg(at).read(reinterpret_cast<char*>(&word), sizeof word);
    word ^= 1U << static_cast<unsigned>(settings.integer("bit", 0));
    file.seekp(at).write(reinterpret_cast<const char*>(&word), sizeof word);
  });
}

// The last `bytes` bytes are not there, or `share` of all; share=1: neither is the file.
void file_cut(Seams& seams, const Settings& settings) {
  change_committed(seams, settings, [settings](const fs::path& path) {
    const double share = settings.number("share", 0);
    const auto size = fs::file_size(path);
    const auto lost =
        share > 0 ? static_cast<std::uintmax_t>(share * static_cast<double>(size)) : static_cast<std::uintmax_t>(settings.integer("bytes", 1));
    if (share >= 1) {
      fs::remove(path);
    } else {
      fs::resize_file(path, size - lost);
    }
  });
}

// One file is that of the checkpoint which the program itself saved at an earlier step.
void other_step(Seams& seams, const Settings& settings) {
  change_committed(seams, settings, [](const fs::path& path) {
    for (const auto& entry : fs::directory_iterator(path.parent_path().parent_path())) {
      if (!entry.path().filename().string().starts_with("step-")) continue;
      fs::copy_file(entry.path() / path.filename(), path, fs::copy_options::overwrite_existing);
      return;
    }
    throw Error(ErrorCode::kConfig, "the fault wants a point after a checkpoint of the program's own");
  });
}

// What `rank` hands over to be saved is, where the files have room for it, what it handed over at the program's own checkpoint before.
void other_step_saved(Seams& seams, const Settings& settings) {
  if (std::getenv(env::kSaveAt) == nullptr) return;
  seams.state_saved = [settings, before = detail::StateTree()](detail::StateTree& tree, const detail::CheckpointContext& context) mutable {
    detail::StateTree now;
    for (auto& [path, leaf] : tree.leaves) {
      if (!leaf.per_rank || !settings.at_rank(context.rank)) continue;
      now.leaves[path] = {leaf.tensor.defined() ? leaf.tensor.clone() : leaf.tensor, leaf.text, true};
      if (before.has(path)) leaf = before.leaves[path];
    }
    before = std::move(now);
  };
}

}  // namespace

void prepare_file_faults() {
  const char* fault = std::getenv("SAMERUN_FAULT");
  const bool wanted = fault != nullptr && std::string(fault).starts_with("other_step") && std::getenv(env::kSaveAt) != nullptr;
  if (wanted) ::unsetenv(env::kCheckpoints);  // the program saves as it does in a run of its own
}

const Faults& file_faults() {
  static const Faults faults{{"flip", bit_flipped}, {"cut", file_cut}, {"other_step", other_step}, {"other_step_saved", other_step_saved}};
  return faults;
}

}  // namespace samerun::fault
