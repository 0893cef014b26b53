#include "reserve.h"

#include <fcntl.h>
#include <unistd.h>

namespace samerun::recorder {
namespace {

/// Ending a run touches a dozen pages of 16 KiB, each once in the log and perhaps once more in the file.
constexpr off_t kBytes = 1 << 20;

}  // namespace

void Reserve::take() const noexcept {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return;
  const bool taken = ::posix_fallocate(fd, 0, kBytes) == 0;
  ::close(fd);
  if (!taken) ::unlink(path_.c_str());
}

bool Reserve::give_up() const noexcept {
  return ::unlink(path_.c_str()) == 0;
}

}  // namespace samerun::recorder
