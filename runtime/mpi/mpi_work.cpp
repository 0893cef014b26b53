#include "mpi_work.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace samerun::detail {

MpiWork::MpiWork(std::vector<at::Tensor> result, int rank, c10d::OpType type, std::uint64_t number)
    : c10d::Work(rank, type),
      result_(std::move(result)),
      number_(number),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

bool MpiWork::wait(std::chrono::milliseconds timeout) {
  if (timeout > std::chrono::milliseconds::zero() && !future_->completed()) {
    struct Gate {
      std::mutex mutex;
      std::condition_variable changed;
      bool open = false;
    };
    const auto gate = std::make_shared<Gate>();  // outlives a wait that is given up
    future_->addCallback([gate](c10::ivalue::Future&) {
      const std::lock_guard lock(gate->mutex);
      gate->open = true;
      gate->changed.notify_all();
    });
    std::unique_lock lock(gate->mutex);
    if (!gate->changed.wait_for(lock, timeout, [&] { return gate->open; }))
      throw std::runtime_error("timed out after " + std::to_string(timeout.count()) + " ms");
  }
  future_->wait();
  if (future_->hasError()) std::rethrow_exception(future_->exception_ptr());
  return true;
}

void MpiWork::succeed(int source) {
  if (settled_.exchange(true)) return;
  source_ = source;
  future_->markCompleted(c10::IValue(result_));
}

void MpiWork::fail(std::exception_ptr error) {
  if (settled_.exchange(true)) return;
  future_->setError(std::move(error));
}

}  // namespace samerun::detail
