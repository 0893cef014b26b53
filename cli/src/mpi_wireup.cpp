#include "mpi_wireup.h"

#include <dlfcn.h>

#include <filesystem>
#include <vector>

#include "cli_version.h"
#include "samerun/core/launch_contract.h"
#include "samerun/core/settings.h"

namespace samerun::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kServerFile = "libsamerun_pmix.so";
constexpr const char* kRankFile = "libsamerun_mpi.so";
constexpr const char* kNotBuilt = "Samerun was built without its MPI part";
constexpr const char* kHowToBuild = "; install libopenmpi-dev and libpmix-dev, and build Samerun again";

fs::path program_folder() {
  std::error_code ignored;
  return fs::canonical("/proc/self/exe", ignored).parent_path();
}

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Where an installed program has its libraries.
std::vector<fs::path> library_folders() {
  const fs::path program = program_folder();
  return {program, program / ".." / "lib", program / ".." / kLibraryFolder};
}

/// The first of `folders` that has `file`; empty where none has.
std::string file_in(const std::vector<fs::path>& folders, const char* file) {
  for (const fs::path& folder : folders) {
    if (there(folder / file)) return (folder / file).lexically_normal().string();
  }
  return {};
}

std::shared_ptr<MpiWireup> open_library() {
  const std::string found = file_in(library_folders(), kServerFile);
  const std::string file = found.empty() ? kServerFile : found;  // By its name alone, the loader looks for it.
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const std::string why = ::dlerror();
    if (found.empty() && why.starts_with(kServerFile)) throw MpiMissing(kNotBuilt, std::string(kNotBuilt) + ": " + why + kHowToBuild);
    throw MpiMissing("Open MPI is not installed", "Samerun's MPI part cannot be loaded: " + why + "; apt-get install libopenmpi3 libpmix2");
  }
  const auto entry = reinterpret_cast<PmixEntry>(::dlsym(library, kPmixEntry));
  if (entry == nullptr) throw MpiMissing("Samerun's MPI part is not whole", file + " has no " + kPmixEntry + "; remove it or build Samerun again");
  return std::shared_ptr<MpiWireup>(entry());  // The library is never closed.
}

}  // namespace

std::shared_ptr<MpiWireup> open_mpi_wireup() {
  std::shared_ptr<MpiWireup> wireup = open_library();
  try {
    static_cast<void>(wireup->version());
  } catch (const Error& error) {
    throw MpiMissing("Open MPI is not installed", error.what());
  }
  return wireup;
}

std::string find_mpi_library() {
  if (const auto named = environment_text(env::kMpiLibrary)) {
    if (there(*named)) return *named;
    throw MpiMissing("Samerun's MPI part is missing", std::string(env::kMpiLibrary) + " is " + *named + ", and no such file is there");
  }
  std::vector<fs::path> folders = library_folders();
  folders.push_back(program_folder() / ".." / "runtime" / "mpi");
  if (const std::string found = file_in(folders, kRankFile); !found.empty()) return found;
  throw MpiMissing(kNotBuilt, std::string(kNotBuilt) + ": no " + kRankFile + " is beside the program or in ../lib" + kHowToBuild);
}

}  // namespace samerun::cli
