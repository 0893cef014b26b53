#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace samerun::cli {

struct ProcessSpec {
  std::string path;               ///< Program file.
  std::vector<std::string> argv;  ///< argv[0] included.
  std::vector<std::string> envp;  ///< "NAME=value".
  int in = -1, out = -1, err = -1;
  std::vector<int> inherit;  ///< Descriptors that stay open in the program, under the same numbers.
  int guard = -1;            ///< Guard::fd().
};

struct ExitStatus {
  std::optional<int> code, signal;
  bool good() const { return code == 0; }
};

/// A program and all that it starts, in a process group of their own. The leader is left unreaped until close(), so
/// that its number, and with it the group's, cannot pass to a stranger while signals may still be sent.
class ProcessGroup {
 public:
  /// Forks and executes; returns once the program runs. Throws kLaunch naming the program when it cannot be executed.
  /// The program dies with the launcher's thread (PDEATHSIG): call from the main thread.
  explicit ProcessGroup(const ProcessSpec& spec);
  /// Kills what is left.
  ~ProcessGroup();
  ProcessGroup(ProcessGroup&& other) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) = delete;
  ProcessGroup(const ProcessGroup&) = delete;

  pid_t id() const { return pid_; }
  void signal(int signal) const;
  /// How the leader ended, nullopt while it runs. Never waits.
  std::optional<ExitStatus> poll_exit();
  /// Kills what is left of the group and reaps the leader if it has ended.
  void close();

 private:
  pid_t pid_ = -1;
  std::optional<ExitStatus> status_;
};

/// "SIGSEGV"; "signal 64" where it has no name.
std::string signal_name(int signal);

}  // namespace samerun::cli
