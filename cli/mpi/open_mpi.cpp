#include "open_mpi.h"

#include <dlfcn.h>

#include <array>

#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

constexpr const char* kLibrary = "libmpi.so.40";  // Of Open MPI 4 and 5, and of no other MPI.
constexpr const char* kBefore = "Open MPI v";     // "Open MPI v4.1.4, package: ..."

/// MPI_Get_library_version, which may be called before MPI_Init.
using VersionCall = int (*)(char* text, int* length);

std::string library_text() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error(ErrorCode::kConfig, std::string("Open MPI cannot be loaded: ") + ::dlerror() + "; apt-get install libopenmpi3");
  const auto version = reinterpret_cast<VersionCall>(::dlsym(library, "MPI_Get_library_version"));
  std::array<char, 4096> text{};  // MPI_MAX_LIBRARY_VERSION_STRING is 256 in Open MPI.
  int length = 0;
  if (version != nullptr) version(text.data(), &length);
  ::dlclose(library);
  return text.data();
}

}  // namespace

std::string open_mpi_version() {
  const std::string text = library_text();
  if (!text.starts_with(kBefore)) throw Error(ErrorCode::kConfig, std::string(kLibrary) + " is not Open MPI's: it calls itself \"" + text + "\"");
  const std::size_t begin = std::string(kBefore).size();
  return "Open MPI " + text.substr(begin, text.find_first_of(", \n", begin) - begin);
}

}  // namespace samerun::cli
