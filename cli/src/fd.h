#pragma once

#include <unistd.h>

#include <utility>

namespace samerun::cli {

/// Owns one file descriptor; -1 is none.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { reset(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Fd read, write;
};

/// A pipe whose ends close on exec. Throws kLaunch.
Pipe make_pipe();
/// /dev/null for reading and writing, closing on exec. Throws kLaunch.
Fd open_null();
void set_nonblocking(int fd);
/// Throws kLaunch: "`what`: " and the text of errno.
[[noreturn]] void throw_errno(const char* what);

}  // namespace samerun::cli
