#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "collective_backend.h"

namespace c10d {
class ProcessGroup;
}

namespace samerun::detail {

enum class Reduction { kSum, kMin, kMax };

/// An all-reduce under way. wait() is bounded by the communicator's time limit and throws kCommunication or kTimeout.
class PendingReduction {
 public:
  explicit PendingReduction(c10::intrusive_ptr<c10::ivalue::Future> future) : future_(std::move(future)) {}
  void wait();
  const c10::intrusive_ptr<c10::ivalue::Future>& future() const { return future_; }

 private:
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

/// The collectives of one group of ranks. All functions are collective: every rank calls them in the same order, from
/// one thread. Tensors are contiguous, on the CPU or the rank's own GPU. Throws kCommunication, kTimeout; afterwards the group is unusable.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual std::string backend() const = 0;
  /// In place; `tensor` must live until the wait is over.
  virtual PendingReduction all_reduce(at::Tensor& tensor, Reduction op) = 0;
  /// One tensor a rank, in rank order; same shape and dtype on all ranks.
  virtual std::vector<at::Tensor> all_gather(const at::Tensor& tensor) = 0;
  virtual void broadcast(at::Tensor& tensor, int root) = 0;
  virtual void barrier() = 0;
  /// The group for c10d's Reducer; null where there is one rank.
  virtual c10::intrusive_ptr<c10d::ProcessGroup> group() = 0;
};

/// Throws kTimeout or kCommunication for what a collective threw. `what` names it.
[[noreturn]] void rethrow_communication(const std::exception& error, const std::string& what, int rank);

/// Rendezvous over the launcher's store and a group of the given backend; a local communicator where there is one rank. MPI is started here, and
/// ended with the communicator unless it is broken or an exception is under way. Throws kRendezvous, kTimeout.
std::shared_ptr<Communicator> make_communicator(const LaunchInfo& launch, int timeout_s, const CollectiveBackend& backend = {});

/// Texts of all ranks in rank order.
std::vector<std::string> gather_texts(Communicator& communicator, const std::string& text);

/// Compares lists of "name=value" lines over ranks. Throws kRendezvous naming `what`, the first line that differs, both
/// values and both ranks; on every rank.
void require_agreement(Communicator& communicator, const std::string& what, const std::vector<std::string>& lines);

}  // namespace samerun::detail
