#include "output_mux.h"

#include <limits.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace samerun::cli {
namespace {

/// Longer lines are cut here, or one rank that never ends its line would take all memory.
constexpr std::size_t kLongestLine = 16u << 20;
constexpr std::size_t kLongestTailLine = 2000;

bool writable(int fd) {
  pollfd poll{fd, POLLOUT, 0};
  return ::poll(&poll, 1, 0) > 0;
}

}  // namespace

void Sink::append(std::string_view text) {
  if (gone_) return;
  buffer_.append(text);
  flush();
}

void Sink::flush() {
  // A ready pipe takes PIPE_BUF bytes without waiting, more perhaps not; the descriptor itself must stay blocking,
  // because it is shared with the shell and the other programs of a pipeline.
  while (pending() && writable(fd_)) {
    const ssize_t size = ::write(fd_, buffer_.data() + start_, std::min<std::size_t>(buffer_.size() - start_, PIPE_BUF));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) {
      gone_ = errno != EAGAIN;
      break;
    }
    start_ += static_cast<std::size_t>(size);
  }
  if (gone_ || !pending()) {
    buffer_.clear();
    start_ = 0;
  } else if (start_ > kFull) {
    buffer_.erase(0, start_);
    start_ = 0;
  }
}

LineStream::LineStream(Fd fd, std::string prefix, Sink& sink) : fd_(std::move(fd)), prefix_(std::move(prefix)), sink_(&sink) {
  set_nonblocking(fd_.get());
}

void LineStream::read_available() {
  std::array<char, 65536> buffer;
  if (!fd_.open()) return;
  const ssize_t size = ::read(fd_.get(), buffer.data(), buffer.size());
  if (size > 0) {
    take({buffer.data(), static_cast<std::size_t>(size)});
  } else if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
    end_partial();
    fd_.reset();
  }
}

void LineStream::finish() {
  // Bounded: a process that left the rank's group may write for ever.
  for (int reads = 0; fd_.open() && reads < 64; ++reads) {
    const std::size_t before = bytes_;
    read_available();
    if (bytes_ == before) break;
  }
  end_partial();
  fd_.reset();
}

void LineStream::take(std::string_view bytes) {
  bytes_ += bytes.size();
  if (prefix_.empty()) sink_->append(bytes);
  for (std::size_t end; (end = bytes.find('\n')) != std::string_view::npos; bytes.remove_prefix(end + 1)) {
    partial_.append(bytes.substr(0, end));
    end_line(partial_);
    partial_.clear();
  }
  partial_.append(bytes);
  if (partial_.size() > kLongestLine) end_partial();
}

void LineStream::end_line(std::string_view line) {
  if (!prefix_.empty()) sink_->append(prefix_ + std::string(line) + "\n");
  if (line.starts_with("frame #")) return;  // libtorch's stack trace would push out the message before it
  tail_.emplace_back(line.substr(0, kLongestTailLine));
  if (tail_.size() > kTailLines) tail_.pop_front();
}

void LineStream::end_partial() {
  if (partial_.empty()) return;
  end_line(partial_);
  partial_.clear();
}

std::string LineStream::tail() const {
  std::string text;
  for (const std::string& line : tail_) text += (text.empty() ? "" : "\n") + line;
  if (!partial_.empty()) text += (text.empty() ? "" : "\n") + partial_.substr(0, kLongestTailLine);
  return text;
}

}  // namespace samerun::cli
