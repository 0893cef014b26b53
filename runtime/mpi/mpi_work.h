#pragma once

#include <ATen/core/ivalue.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <vector>

namespace samerun::detail {

/// An operation under way, to whoever waits for it. Settled once, by the worker or by the watch.
class MpiWork final : public c10d::Work {
 public:
  MpiWork(std::vector<at::Tensor> result, int rank, c10d::OpType type, std::uint64_t number);

  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->completed() && !future_->hasError(); }
  std::exception_ptr exception() const override { return future_->hasError() ? future_->exception_ptr() : nullptr; }
  /// Bounded by the group's time limit, or by `timeout` where that is shorter. Throws what ended the operation.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return result_; }
  int sourceRank() const override { return source_; }
  std::uint64_t getSequencenumber() const override { return number_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

  /// `source`: of a receive, the rank that sent.
  void succeed(int source);
  void fail(std::exception_ptr error);

 private:
  std::vector<at::Tensor> result_;
  std::uint64_t number_;
  std::atomic<bool> settled_ = false;
  std::atomic<int> source_ = -1;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace samerun::detail
