#pragma once

#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mpi_call.h"
#include "mpi_work.h"
#include "patience.h"

namespace samerun::detail {

/// A piece of a transfer between two ranks.
struct TransferPiece {
  MPI_Request request = MPI_REQUEST_NULL;
  int receives = -1;  ///< Bytes that must come; -1: it sends.
};

/// What is asked of a group. Either `run`, a blocking call for when all ranks have arrived, or `begin`, a transfer between two ranks.
struct Operation {
  std::string text;  ///< "all_reduce (sum, 1024 Float)": the same on all ranks, or the call is an error that says so.
  std::function<void()> run;
  std::function<std::vector<TransferPiece>()> begin;
  c10::intrusive_ptr<MpiWork> work;
};

struct QueueOptions {
  c10::intrusive_ptr<c10d::Store> store;  ///< Of this group alone: each rank's position, for who must say whom it waits for.
  std::chrono::milliseconds timeout{};    ///< Of each operation, from when its turn has come.
  Waiting waiting = Waiting::kYields;
};

/// The operations of one group on this rank, in order of issue, on one worker thread. A collective first waits until all ranks have called the
/// same one, by a reduction of 16 bytes that does not block; a wait can thus be bounded and named, and costs no core. Transfers run beside it.
/// A watch thread ends what takes longer than the time limit: the group is broken then, and everything asked of it fails with that reason.
class OperationQueue {
 public:
  OperationQueue(const Comm& comm, QueueOptions options);
  /// Waits for what was issued; a broken group's worker may hang inside MPI and is left behind.
  ~OperationQueue();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  /// Any thread.
  void submit(Operation operation);
  std::uint64_t issued() const;
  bool broken() const;
  /// Of any group of this process, gone ones included: MPI cannot be ended then.
  static bool any_broken();

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace samerun::detail
