#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace samerun::launch_test {

using Words = std::vector<std::string>;

/// How a process ended and what it wrote.
struct Ended {
  int code = -1;   ///< -1 when a signal ended it.
  int signal = 0;  ///< 0 when it exited.
  std::string out, err;
};

/// A working directory of its own, and the built `samerun` in it. What is still running is killed at the end.
class Bench {
 public:
  Bench();
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::filesystem::path folder() const { return folder_; }
  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string record() const { return file(".samerun"); }

  /// Environment of the next start, over the test's own.
  std::map<std::string, std::string> env;
  /// What start() executes: the built `samerun`, or what starts it in turn.
  std::string program;

  void start(const Words& arguments);
  pid_t pid() const { return pid_; }
  /// Waits for the end, within a bound that only a hang reaches.
  Ended finish();
  Ended run(const Words& arguments) {
    start(arguments);
    return finish();
  }
  /// `samerun launch -n RANKS --no-record -- stub WORDS`.
  Ended launch(int ranks, const Words& stub_words);
  Words launch_words(int ranks, const Words& stub_words) const;

  /// Waits until a stub made the file; its process's number. Fails the test after the bound.
  pid_t await_mark(const std::string& name) const;
  void write(const std::string& name, const std::string& text, bool executable = false) const;

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

/// Waits until the process is gone or a zombie; false after the bound.
bool await_gone(pid_t pid);
/// Whether the process runs.
bool running(pid_t pid);
std::string read_file(const std::string& path);
/// Lines of `text`, sorted: ranks write in any order.
Words sorted_lines(const std::string& text);
bool has_control_characters(const std::string& text);

}  // namespace samerun::launch_test
