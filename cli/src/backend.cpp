#include "backend.h"

#include <algorithm>

#include "mpi_runs.h"
#include "mpi_wireup.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"

namespace samerun::cli {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kMpi = "mpi";

std::string known_words() {
  std::string text;
  for (const std::string& word : backend_words()) text += (text.empty() ? "" : ", ") + word;
  return text;
}

void offer_mpi(Backend& backend) {
  const std::string library = find_mpi_library();  // First: a look for a file costs nothing.
  const std::shared_ptr<MpiWireup> wireup = open_mpi_wireup();
  backend.mpi_library = library;
  backend.carrier = "MPI over shared memory (" + wireup->version() + ")";
  backend.mpi = std::make_shared<MpiRuns>(wireup, backend.word.value() == kMpi);
}

}  // namespace

const std::vector<std::string>& backend_words() {
  static const std::vector<std::string> words{"auto", "gloo", "mpi", "nccl"};
  return words;
}

Setting<std::string> resolve_backend_word(const std::optional<std::string>& flag) {
  if (flag) return {*flag, Origin::kArgument};
  const auto word = environment_text(env::kBackend);
  if (!word) return {kAuto, Origin::kDefault};
  const std::vector<std::string>& words = backend_words();
  if (std::find(words.begin(), words.end(), *word) != words.end()) return {*word, Origin::kEnvironment};
  throw Error(ErrorCode::kConfig, std::string(env::kBackend) + " is " + *word + ", and the known ones are " + known_words());
}

Backend find_backend(const Setting<std::string>& word, std::int64_t ranks) {
  Backend backend;
  backend.word = word;
  if (ranks == 1 || (word.value() != kMpi && word.value() != kAuto)) return backend;
  try {
    offer_mpi(backend);
  } catch (const MpiMissing& missing) {
    if (word.value() == kMpi) throw Error(ErrorCode::kLaunch, std::string("MPI cannot be had: ") + missing.what());
    backend.carrier = "Gloo (" + missing.in_short() + ")";
  }
  return backend;
}

std::string Backend::text() const {
  const bool given = word.origin() != Origin::kDefault;
  if (!given && carrier.empty()) return {};
  const std::string source = word.origin() == Origin::kFile ? "record" : std::string(to_string(word.origin()));
  const std::string origin = given ? " (" + source + ")" : "";
  return "backend " + word.value() + origin + (carrier.empty() ? "" : ": " + carrier);
}

std::map<std::string, std::string> Backend::environment() const {
  std::map<std::string, std::string> variables{{env::kBackend, word.value()}};
  if (!mpi_library.empty()) variables[env::kMpiLibrary] = mpi_library;
  return variables;
}

}  // namespace samerun::cli
