#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "fd.h"

namespace samerun::cli {

/// Where lines go: the launcher's stdout, its stderr, or a log file. Never waits for a slow reader; a reader that has
/// gone (`samerun ... | head`) loses the rest, the run goes on.
class Sink {
 public:
  /// `fd` is borrowed.
  explicit Sink(int fd) : fd_(fd) {}
  explicit Sink(Fd owned) : owned_(std::move(owned)), fd_(owned_.get()) {}

  int fd() const { return fd_; }
  void append(std::string_view text);
  /// Writes what the reader takes now.
  void flush();
  bool pending() const { return start_ < buffer_.size(); }
  /// Too much waits here: leave more in the ranks' pipes, so that the ranks wait and memory stays small.
  bool full() const { return buffer_.size() - start_ > kFull; }

 private:
  static constexpr std::size_t kFull = 1 << 20;

  Fd owned_;
  int fd_;
  bool gone_ = false;
  std::string buffer_;
  std::size_t start_ = 0;
};

/// One stream of one rank on its way to a sink, whole lines at a time, each with the rank's prefix.
class LineStream {
 public:
  static constexpr std::size_t kTailLines = 20;

  /// `prefix` empty: bytes go through as they come, so that prompts and progress bars of a lone rank work.
  LineStream(Fd fd, std::string prefix, Sink& sink);

  int fd() const { return fd_.get(); }
  bool open() const { return fd_.open(); }
  Sink& sink() const { return *sink_; }
  /// Reads what is there without waiting; closes at the end of the stream.
  void read_available();
  /// Reads what is left, ends a last line that has no newline, closes.
  void finish();
  /// The last lines, oldest first, joined by newlines; without the frames of stack traces.
  std::string tail() const;

 private:
  void take(std::string_view bytes);
  void end_line(std::string_view line);
  void end_partial();

  Fd fd_;
  std::string prefix_;
  Sink* sink_;
  std::size_t bytes_ = 0;
  std::string partial_;
  std::deque<std::string> tail_;
};

}  // namespace samerun::cli
