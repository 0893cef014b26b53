#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace samerun {

/// What failed, and whether one may go on afterwards.
enum class ErrorCode {
  kInvalidArgument,  ///< A call was wrong; nothing was changed, correct it and go on.
  kConfig,           ///< A setting, flag or file is wrong; correct it and start again.
  kLaunch,           ///< A rank could not be started; the run is over.
  kRendezvous,       ///< The ranks did not find each other or do not agree; the run is over.
  kCommunication,    ///< A collective failed; rebuild the process group (start again).
  kTimeout,          ///< A bounded wait ended; rebuild the process group (start again).
  kCheckpoint,       ///< A checkpoint could not be written or read; live objects are unchanged.
  kStorage,          ///< A file or database could not be read or written; existing data are unchanged.
  kCorruption,       ///< Stored bytes are not what was written; nothing was loaded.
  kTorch,            ///< libtorch threw; the state of the tensors involved is unknown.
  kInternal,         ///< A defect of Samerun; please report it.
};

/// The code as it stands in messages and in the record: "invalid_argument", "config", ...
std::string_view to_string(ErrorCode code);

/// The one exception type of Samerun. `what()` is one line: message, then "(key=value, ...)", then "[rank r]".
class Error : public std::runtime_error {
 public:
  using Context = std::map<std::string, std::string>;

  /// `message`: what happened and what to do. `rank`: -1 where there is none.
  Error(ErrorCode code, const std::string& message, Context context = {}, int rank = -1);

  ErrorCode code() const noexcept { return code_; }
  int rank() const noexcept { return rank_; }
  const Context& context() const noexcept { return context_; }

 private:
  ErrorCode code_;
  int rank_;
  Context context_;
};

}  // namespace samerun
