#include "process_group.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "fd.h"
#include "guard.h"
#include "samerun/core/error.h"

namespace samerun::cli {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

void restore_signals() {
  // What the launcher ignores or blocks would otherwise stay so in the program.
  for (int signal : {SIGPIPE, SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// The forked child. Async-signal-safe calls only: nothing here may allocate.
[[noreturn]] void become(const ProcessSpec& spec, char* const* argv, char* const* envp, pid_t launcher, int error_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(127);  // The launcher died before PDEATHSIG was set.
  Guard::announce(spec.guard, ::getpid());
  restore_signals();
  ::dup2(spec.in, 0);
  ::dup2(spec.out, 1);
  ::dup2(spec.err, 2);
  for (int fd : spec.inherit) ::fcntl(fd, F_SETFD, 0);
  ::execve(spec.path.c_str(), argv, envp);
  const int error = errno;
  const ssize_t ignored = ::write(error_fd, &error, sizeof error);
  static_cast<void>(ignored);
  ::_exit(127);
}

/// errno of a failed exec; 0 when the pipe closed because the program runs.
int exec_error(int fd) {
  int error = 0;
  ssize_t size = 0;
  do size = ::read(fd, &error, sizeof error);
  while (size < 0 && errno == EINTR);
  return size == sizeof error ? error : 0;
}

std::string why(int error) {
  std::string text = std::strerror(error);
  if (error == ENOENT) text += " (the file exists, so its interpreter or loader is missing)";
  if (error == ENOEXEC) text += " (built for another machine?)";
  return text;
}

}  // namespace

ProcessGroup::ProcessGroup(const ProcessSpec& spec) {
  Pipe errors = make_pipe();
  const std::vector<char*> argv = pointers(spec.argv), envp = pointers(spec.envp);
  const pid_t launcher = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) throw_errno("cannot start a process");
  if (pid_ == 0) become(spec, argv.data(), envp.data(), launcher, errors.write.get());
  ::setpgid(pid_, pid_);  // Both sides set it, so that neither need wait for the other.
  errors.write.reset();
  if (const int error = exec_error(errors.read.get()); error != 0) {
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    throw Error(ErrorCode::kLaunch, "cannot execute " + spec.path + ": " + why(error));
  }
}

ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}

ProcessGroup::~ProcessGroup() {
  close();
}

void ProcessGroup::signal(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

std::optional<ExitStatus> ProcessGroup::poll_exit() {
  if (status_ || pid_ < 0) return status_;
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return std::nullopt;
  ExitStatus status;
  (info.si_code == CLD_EXITED ? status.code : status.signal) = info.si_status;
  status_ = status;
  return status_;
}

void ProcessGroup::close() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, status_ ? 0 : WNOHANG);
  pid_ = -1;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

}  // namespace samerun::cli
