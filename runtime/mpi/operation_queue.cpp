#include "operation_queue.h"

#include <ATen/core/grad_mode.h>
#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>

#include "arrival.h"
#include "positions.h"

namespace samerun::detail {
namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> any_group_broken = false;

struct Collective {
  Operation operation;
  std::uint64_t number = 0;
  std::optional<Arrival> arrival;
  bool running = false;
  Clock::time_point since{};
};

struct Transfer {
  Operation operation;
  std::vector<TransferPiece> pieces;
  Clock::time_point since{};
  int source = -1;
};

/// Looks once; true when the piece has been sent or received.
bool complete(TransferPiece& piece, int& source) {
  if (piece.request == MPI_REQUEST_NULL) return true;
  int done = 0, bytes = 0;
  MPI_Status status;
  check_mpi(MPI_Test(&piece.request, &done, &status), "a transfer");
  if (done == 0) return false;
  if (piece.receives < 0) return true;
  source = status.MPI_SOURCE;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != piece.receives)
    throw std::runtime_error("rank " + std::to_string(source) + " sent " + std::to_string(bytes) + " bytes where " + std::to_string(piece.receives) +
                             " were expected");
  return true;
}

}  // namespace

/// Shared by the queue and its two threads, so that a worker that hangs inside MPI harms nobody.
class OperationQueue::State : public std::enable_shared_from_this<State> {
 public:
  State(const Comm& comm, QueueOptions options)
      : comm_(comm), options_(std::move(options)), positions_(options_.store, comm.rank, comm.size, options_.timeout) {}

  void start() {
    worker_ = std::thread([self = shared_from_this()] { self->work(); });
    watch_ = std::thread([self = shared_from_this()] { self->watch(); });
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    {
      std::unique_lock lock(mutex_);
      done_.wait(lock, [this] { return worker_done_ || broken_ != nullptr; });
    }
    watch_wake_.notify_all();
    watch_.join();
    // A worker inside a call that will not return is left alone.
    if (finished_worker()) {
      worker_.join();
    } else {
      worker_.detach();
    }
  }

  void submit(Operation operation) {
    std::exception_ptr broken;
    {
      const std::lock_guard lock(mutex_);
      broken = broken_;
      if (!broken) {
        if (operation.begin) {
          transfers_.push_back({std::move(operation), {}, {}, -1});
        } else {
          collectives_.push_back({std::move(operation), ++issued_, std::nullopt, false, {}});
        }
        ++asked_;
      }
    }
    if (broken) {
      operation.work->fail(broken);
    } else {
      wake_.notify_one();
    }
  }

  std::uint64_t issued() const {
    const std::lock_guard lock(mutex_);
    return issued_;
  }
  bool broken() const {
    const std::lock_guard lock(mutex_);
    return broken_ != nullptr;
  }

 private:
  bool finished_worker() const {
    const std::lock_guard lock(mutex_);
    return worker_done_;
  }

  // ---- worker ----

  void work() {
    ::pthread_setname_np(::pthread_self(), "samerun-mpi");
    const at::NoGradGuard guard;
    Patience patience(options_.waiting);
    std::uint64_t seen = 0;
    while (sleep_until_asked()) {
      bool moved = asked_ != std::exchange(seen, asked_.load());
      try {
        moved |= move_collective();
        moved |= move_transfers();
      } catch (const std::exception&) {
        break_with(std::current_exception());
      }
      moved ? patience.reset() : patience.pause();
    }
    const std::lock_guard lock(mutex_);
    worker_done_ = true;
    done_.notify_all();
  }

  /// False when there is nothing more to do.
  bool sleep_until_asked() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || broken_ || !collectives_.empty() || !transfers_.empty(); });
    return !broken_ && !(collectives_.empty() && transfers_.empty());
  }

  /// The one whose turn it is; it stays at its place until the worker takes it off.
  Collective* front() {
    const std::lock_guard lock(mutex_);
    return collectives_.empty() ? nullptr : &collectives_.front();
  }

  bool move_collective() {
    Collective* current = front();
    if (current == nullptr) return false;
    bool moved = false;
    if (!current->arrival) {
      begin(*current);
      moved = true;
    }
    if (!current->arrival->complete()) return moved;
    current->arrival->require_same();
    set_running(*current);
    current->operation.run();
    end(*current);
    return true;
  }

  void begin(Collective& current) {
    positions_.set({current.number, current.operation.text});
    const std::lock_guard lock(mutex_);
    current.since = Clock::now();
    current.arrival.emplace(comm_, current.operation.text);
  }

  void set_running(Collective& current) {
    const std::lock_guard lock(mutex_);
    current.running = true;
  }

  void end(Collective& current) {
    const auto work = current.operation.work;
    {
      const std::lock_guard lock(mutex_);
      if (broken_) return;
      collectives_.pop_front();
    }
    work->succeed(-1);
  }

  bool move_transfers() {
    std::list<Transfer*> open;
    {
      const std::lock_guard lock(mutex_);
      for (auto& transfer : transfers_) open.push_back(&transfer);
    }
    bool moved = false;
    for (Transfer* transfer : open) moved |= move(*transfer);
    return moved;
  }

  bool move(Transfer& transfer) {
    if (transfer.since == Clock::time_point{}) {
      auto pieces = transfer.operation.begin();
      const std::lock_guard lock(mutex_);
      transfer.pieces = std::move(pieces);
      transfer.since = Clock::now();
    }
    bool done = true;
    for (auto& piece : transfer.pieces) done &= complete(piece, transfer.source);
    if (!done) return false;
    const auto work = transfer.operation.work;
    const int source = transfer.source;
    {
      const std::lock_guard lock(mutex_);
      if (broken_) return true;
      transfers_.remove_if([&](const Transfer& other) { return &other == &transfer; });
    }
    work->succeed(source);
    return true;
  }

  // ---- watch ----

  void watch() {
    ::pthread_setname_np(::pthread_self(), "samerun-watch");
    const auto period = std::min<std::chrono::milliseconds>(std::chrono::seconds(1), options_.timeout / 4);
    std::unique_lock lock(mutex_);
    while (!worker_done_ && !broken_) {
      watch_wake_.wait_for(lock, period);
      const auto late = late_operation();
      const bool inside = !collectives_.empty() && collectives_.front().running;
      lock.unlock();
      positions_.publish();
      if (!late.empty()) break_with(std::make_exception_ptr(std::runtime_error(late + positions_.missing(inside))));
      lock.lock();
    }
    const bool broken = broken_ != nullptr;
    lock.unlock();
    if (!broken) positions_.leave();
  }

  /// What has taken too long; empty: nothing. Called with the lock held.
  std::string late_operation() const {
    const auto limit = Clock::now() - options_.timeout;
    const std::string seconds = std::to_string(std::chrono::duration_cast<std::chrono::seconds>(options_.timeout).count()) + " s";
    if (!collectives_.empty() && collectives_.front().arrival && collectives_.front().since < limit) {
      const auto& first = collectives_.front();
      return first.operation.text + ", number " + std::to_string(first.number) + " of this group, timed out after " + seconds +
             (first.running ? " though all ranks had called it: " : ": ");
    }
    for (const auto& transfer : transfers_) {
      if (transfer.since != Clock::time_point{} && transfer.since < limit) return transfer.operation.text + " timed out after " + seconds + ": ";
    }
    return {};
  }

  void break_with(std::exception_ptr error) {
    std::vector<c10::intrusive_ptr<MpiWork>> works;
    {
      const std::lock_guard lock(mutex_);
      if (broken_) return;
      broken_ = error;
      any_group_broken = true;
      // The operations stay: MPI may still write into their tensors.
      for (const auto& item : collectives_) works.push_back(item.operation.work);
      for (const auto& item : transfers_) works.push_back(item.operation.work);
    }
    for (const auto& work : works) work->fail(error);
    wake_.notify_all();
    done_.notify_all();
    watch_wake_.notify_all();
  }

  Comm comm_;
  QueueOptions options_;
  Positions positions_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, done_, watch_wake_;
  std::deque<Collective> collectives_;
  std::list<Transfer> transfers_;
  std::uint64_t issued_ = 0;
  std::atomic<std::uint64_t> asked_ = 0;
  bool stopping_ = false, worker_done_ = false;
  std::exception_ptr broken_;
  std::thread worker_, watch_;
};

OperationQueue::OperationQueue(const Comm& comm, QueueOptions options) : state_(std::make_shared<State>(comm, std::move(options))) {
  state_->start();
}

OperationQueue::~OperationQueue() {
  state_->stop();
}

void OperationQueue::submit(Operation operation) {
  state_->submit(std::move(operation));
}
std::uint64_t OperationQueue::issued() const {
  return state_->issued();
}
bool OperationQueue::any_broken() {
  return any_group_broken;
}
bool OperationQueue::broken() const {
  return state_->broken();
}

}  // namespace samerun::detail
