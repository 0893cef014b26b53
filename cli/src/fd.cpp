#include "fd.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "samerun/core/error.h"

namespace samerun::cli {

void throw_errno(const char* what) {
  const int error = errno;
  std::string hint;
  if (error == EMFILE || error == ENFILE) hint = "; raise the limit of open files (ulimit -n) or start fewer ranks";
  if (error == EAGAIN) hint = "; the limit of processes (ulimit -u) may have been reached";
  throw Error(ErrorCode::kLaunch, std::string(what) + ": " + std::strerror(error) + hint);
}

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("cannot make a pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

Fd open_null() {
  Fd fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!fd.open()) throw_errno("cannot open /dev/null");
  return fd;
}

void set_nonblocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

}  // namespace samerun::cli
