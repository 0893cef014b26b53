#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <optional>
#include <string>
#include <vector>

#include "operation_queue.h"

namespace samerun::detail {

/// c10d's Backend over Open MPI, for tensors on the CPU. All operations are asynchronous and go by one OperationQueue. Tensors must be dense and
/// contiguous, and are not touched by the caller until the work is done. Wrong arguments throw at the call, before any other rank is involved.
class MpiBackend final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  /// `collectives` and `transfers`: two communicators of the same ranks, freed with the backend.
  MpiBackend(const Comm& collectives, const Comm& transfers, const QueueOptions& options);
  ~MpiBackend() override;

  const std::string getBackendName() const override { return "mpi"; }
  std::uint64_t getSequenceNumberForGroup() override { return queue_->issued(); }
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  Work endCoalescing() override;

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  Work reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  Work allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  Work allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  Work scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  Work reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ReduceScatterOptions& options) override;
  Work _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override;
  Work reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override;
  Work alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  /// Empty split sizes: equal parts.
  Work alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits, std::vector<std::int64_t>& input_splits,
                     const c10d::AllToAllOptions& options) override;
  Work send(Tensors& tensors, int destination, int tag) override;
  Work recv(Tensors& tensors, int source, int tag) override;
  Work recvAnysource(Tensors& tensors, int tag) override;
  Work barrier(const c10d::BarrierOptions& options) override;

 private:
  Work collective(c10d::OpType type, std::string text, Tensors result, std::function<void()> run);
  Work transfer(c10d::OpType type, std::string text, Tensors result, std::function<std::vector<TransferPiece>()> begin);
  Work receive(c10d::OpType type, Tensors& tensors, int source, int tag);
  Work all_reduce(Tensors tensors, const c10d::ReduceOp& op, c10d::OpType type);
  Work all_gather_bases(const char* name, Tensors outputs, Tensors inputs);
  Work reduce_scatter_bases(const char* name, Tensors outputs, Tensors inputs, const c10d::ReduceOp& op);
  Work all_to_all(const char* name, Tensors outputs, Tensors inputs);
  void require_rank(const char* name, std::int64_t rank) const;

  Comm collectives_, transfers_;
  std::unique_ptr<OperationQueue> queue_;
  std::optional<std::vector<Operation>> coalescing_;
};

}  // namespace samerun::detail
