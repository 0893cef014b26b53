#include "guard.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <set>

namespace samerun::cli {
namespace {

/// Fixed size and below PIPE_BUF: writes of several processes never mix.
struct Message {
  enum Kind : std::int32_t { kAdd = 1, kForget = 2, kQuit = 3 };
  std::int32_t kind;
  std::int32_t group;
};

void send(int fd, Message message) {
  while (::write(fd, &message, sizeof message) < 0 && errno == EINTR) {
  }
}

/// Standard streams would keep a reader of the launcher's output waiting; other descriptors belong to the launcher.
void keep_only(int fd) {
  const int null = ::open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard) ::dup2(null, standard);
  const auto kept = static_cast<unsigned>(fd);
  if (kept > 3) ::close_range(3, kept - 1, 0);
  ::close_range(kept + 1, ~0U, 0);
}

[[noreturn]] void watch(int fd) {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  std::set<pid_t> groups;
  for (;;) {
    Message message{};
    const ssize_t size = ::read(fd, &message, sizeof message);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof message) break;
    if (message.kind == Message::kQuit) ::_exit(0);
    if (message.kind == Message::kAdd) groups.insert(message.group);
    if (message.kind == Message::kForget) groups.erase(message.group);
  }
  for (pid_t group : groups) ::kill(-group, SIGKILL);
  ::_exit(0);
}

}  // namespace

Guard::Guard() {
  Pipe pipe = make_pipe();
  pid_ = ::fork();
  if (pid_ < 0) throw_errno("cannot start the guard process");
  if (pid_ == 0) {
    ::setsid();
    pipe.write.reset();
    keep_only(pipe.read.get());
    watch(pipe.read.get());
  }
  pipe_ = std::move(pipe.write);
}

Guard::~Guard() {
  send(pipe_.get(), {Message::kQuit, 0});
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Guard::announce(int fd, pid_t group) {
  send(fd, {Message::kAdd, group});
}
void Guard::forget(pid_t group) {
  send(pipe_.get(), {Message::kForget, group});
}

}  // namespace samerun::cli
