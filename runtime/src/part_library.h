#pragma once

#include <string>

namespace samerun::detail {

/// A part of Samerun in a shared library of its own, opened when it is asked for and never closed.
struct Part {
  const char* file;      ///< "libsamerun_nccl.so".
  const char* variable;  ///< Names the file, where it is nowhere that is looked at.
  const char* folder;    ///< Of the build tree, below runtime/.
  const char* entry;     ///< Its one symbol.
};

/// Looks where `variable` names it, beside the program, in ../lib and in the build tree, then where the loader looks. Returns the entry; null where
/// it cannot be opened, with `why`. Throws kConfig for a file that has no entry.
void* open_part(const Part& part, std::string& why);

}  // namespace samerun::detail
