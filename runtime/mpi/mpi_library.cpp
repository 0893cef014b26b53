// The part of Samerun that knows MPI's headers.
#include "mpi_library.h"

#include <mpi.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "mpi_backend.h"
#include "mpi_call.h"
#include "samerun/core/error.h"
#include "samerun/core/launch_contract.h"
#include "samerun/core/settings.h"

namespace samerun::detail {
namespace {

/// The start has this much longer than an operation: processes start at different times, on a host that may be busy.
constexpr std::chrono::seconds kStartGrace{30};

/// Ends the process when what happens in its scope takes too long: MPI's own start and end know no time limit, and nobody else could end them.
class Deadline {
 public:
  Deadline(std::chrono::milliseconds limit, std::string what) : what_(std::move(what)), thread_([this, limit] { wait(limit); }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

 private:
  void wait(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
    std::fprintf(stderr, "samerun: error: %s took longer than %lld s; another rank has stopped or was never started\n", what_.c_str(),
                 static_cast<long long>(limit.count() / 1000));
    std::fflush(nullptr);
    ::_exit(1);
  }

  std::string what_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

/// What the user has not set. Read by MPI_Init.
void suggest(const char* name, const char* value) {
  ::setenv(name, value, 0);
}

Waiting waiting_of(const MpiStart& start) {
  const auto word = environment_text(env::kMpiWait).value_or("");
  if (word == "spin") return Waiting::kSpins;
  if (word == "yield") return Waiting::kYields;
  if (!word.empty()) throw Error(ErrorCode::kConfig, std::string(env::kMpiWait) + " must be yield or spin", {{"text", word}});
  return start.oversubscribed ? Waiting::kYields : Waiting::kLooks;
}

/// A long message is copied once where a rank may read its peer's memory, by a call that containers often refuse; Open MPI does not ask before.
bool may_read_memory() {
  char from = 1, to = 0;
  const iovec remote{&from, 1}, local{&to, 1};
  return ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0) == 1;
}

void tune(const MpiStart& start, Waiting waiting) {
  suggest("OMPI_MCA_mpi_yield_when_idle", waiting == Waiting::kYields ? "1" : "0");
  suggest("OMPI_MCA_mpi_warn_on_fork", "0");
  if (!start.one_host) return;
  suggest("OMPI_MCA_pml", "ob1");
  suggest("OMPI_MCA_btl", "self,vader");
  if (!may_read_memory()) suggest("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
}

/// Tests cut messages into small ones.
std::size_t most_bytes() {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return static_cast<std::size_t>(environment_integer(env::kMpiMessageBytes, 16, kMost).value_or(kMost));
}

Comm sharing(MPI_Comm parent) {
  Comm comm;
  check_mpi(MPI_Comm_dup(parent, &comm.handle), "MPI_Comm_dup");
  check_mpi(MPI_Comm_set_errhandler(comm.handle, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm_rank(comm.handle, &comm.rank);
  MPI_Comm_size(comm.handle, &comm.size);
  comm.most_bytes = most_bytes();
  return comm;
}

MPI_Comm subset(const std::vector<int>& ranks) {
  MPI_Group world = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &group), "MPI_Group_incl");
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &comm), "MPI_Comm_create_group");
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return comm;
}

class Library final : public MpiLibrary {
 public:
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string line(text);  // "Open MPI v4.1.4, package: ..."
    const auto comma = line.find(',');
    auto name = line.substr(0, comma);
    if (const auto v = name.find(" v"); v != std::string::npos) name.erase(v + 1, 1);
    return name;
  }

  MpiPlace start(const MpiStart& start, std::chrono::milliseconds timeout) override {
    int begun = 0;
    MPI_Initialized(&begun);
    if (begun != 0)
      throw Error(ErrorCode::kConfig, "MPI was started before the Accelerator was made; leave MPI_Init to it, or choose --backend gloo");
    const Deadline deadline(timeout + kStartGrace, "the start of MPI");
    waiting_ = waiting_of(start);
    tune(start, waiting_);
    int level = MPI_THREAD_SINGLE;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_MULTIPLE)
      throw Error(ErrorCode::kConfig, version() + " was built without MPI_THREAD_MULTIPLE, which the collectives need; choose --backend gloo");
    MpiPlace place;
    MPI_Comm_rank(MPI_COMM_WORLD, &place.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &place.size);
    return place;
  }

  std::string broadcast_text(const std::string& text, std::chrono::milliseconds timeout) override {
    const Deadline deadline(timeout + kStartGrace, "the first exchange over MPI");
    int size = static_cast<int>(text.size());
    check_mpi(MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD), "MPI_Bcast");
    std::string result = text;
    result.resize(static_cast<std::size_t>(size));
    check_mpi(MPI_Bcast(result.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD), "MPI_Bcast");
    return result;
  }

  c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                                 std::chrono::milliseconds timeout) override {
    const Deadline deadline(timeout + kStartGrace, "making a group of ranks over MPI");
    MPI_Comm parent = subset(ranks);
    const Comm collectives = sharing(parent), transfers = sharing(parent);
    MPI_Comm_free(&parent);
    return c10::make_intrusive<MpiBackend>(collectives, transfers, QueueOptions{store, timeout, waiting_});
  }

  void finish(std::chrono::milliseconds timeout) override {
    if (OperationQueue::any_broken()) return;
    const Deadline deadline(timeout, "the end of MPI");
    MPI_Finalize();
  }

 private:
  Waiting waiting_ = Waiting::kYields;
};

}  // namespace
}  // namespace samerun::detail

extern "C" __attribute__((visibility("default"))) samerun::detail::MpiLibrary* samerun_mpi_library() {
  static samerun::detail::Library library;
  return &library;
}
