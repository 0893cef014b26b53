#include "gather.h"

#include <torch/types.h>

#include "engine.h"
#include "samerun/core/error.h"
#include "samerun/runtime/accelerator.h"

namespace samerun {
namespace {

std::string shape_word(const at::Tensor& tensor, std::int64_t from) {
  std::string text = detail::dtype_name(tensor) + " [";
  for (std::int64_t i = from; i < tensor.dim(); ++i) text += std::to_string(tensor.size(i)) + ",";
  return text + "]";
}

at::Tensor gather_rows(detail::Communicator& communicator, const at::Tensor& tensor) {
  const torch::NoGradGuard guard;
  const auto rows = (tensor.dim() == 0 ? tensor.unsqueeze(0) : tensor).detach().contiguous();
  if (communicator.world_size() == 1) return rows.clone();
  detail::require_agreement(communicator, "the tensors given to gather()", {"dtype and trailing shape=" + shape_word(rows, 1)});
  return at::cat(detail::gather_ragged(communicator, rows), 0);
}

}  // namespace

/// Ranks may have different numbers of rows: each pads to the most, and pads are cut.
std::vector<at::Tensor> detail::gather_ragged(Communicator& communicator, const at::Tensor& rows) {
  if (communicator.world_size() == 1) return {rows};
  auto count = at::full({1}, rows.size(0), at::kLong);
  const auto counts = communicator.all_gather(count);
  std::int64_t most = 0;
  for (const auto& each : counts) most = std::max(most, each.item<std::int64_t>());
  auto sizes = rows.sizes().vec();
  sizes[0] = most;
  auto padded = at::zeros(sizes, rows.options());
  if (rows.size(0) > 0) padded.narrow(0, 0, rows.size(0)).copy_(rows);
  const auto gathered = communicator.all_gather(padded);
  std::vector<at::Tensor> parts;
  for (std::size_t r = 0; r < gathered.size(); ++r) parts.push_back(gathered[r].narrow(0, 0, counts[r].item<std::int64_t>()));
  return parts;
}

at::Tensor Accelerator::gather(const at::Tensor& tensor) {
  const detail::SpanTimer timer(engine_->spans, engine_->spans.collective());
  return gather_rows(*engine_->communicator, tensor);
}

at::Tensor Accelerator::gather_for_metrics(const at::Tensor& tensor) {
  const auto& current = engine_->in_hand();
  if (!current.valid)
    throw Error(ErrorCode::kInvalidArgument,
                "gather_for_metrics() gathers rows of a loader's current batch: call it inside `for (auto& batch : loader)`", {}, rank());
  if (tensor.dim() == 0 || tensor.size(0) != current.rows)
    throw Error(
        ErrorCode::kInvalidArgument,
        "gather_for_metrics() takes one row a sample, so that padding can be removed; a value already reduced over the batch cannot be trimmed "
        "(reduce after gathering)",
        {{"rows", std::to_string(tensor.dim() == 0 ? 0 : tensor.size(0))}, {"batch rows", std::to_string(current.rows)}}, rank());
  const detail::SpanTimer timer(engine_->spans, engine_->spans.collective());
  return gather_rows(*engine_->communicator, tensor.narrow(0, 0, current.real));
}

at::Tensor Accelerator::reduce(const at::Tensor& tensor, ReduceOp op) {
  const detail::SpanTimer timer(engine_->spans, engine_->spans.collective());
  const torch::NoGradGuard guard;
  auto result = tensor.detach().clone(at::MemoryFormat::Contiguous);
  detail::require_agreement(*engine_->communicator, "the tensors given to reduce()", {"dtype and shape=" + shape_word(result, 0)});
  const auto reduction = op == ReduceOp::kMin ? detail::Reduction::kMin : op == ReduceOp::kMax ? detail::Reduction::kMax : detail::Reduction::kSum;
  engine_->communicator->all_reduce(result, reduction).wait();
  // Sum, then divide: Gloo's own average has been reported wrong.
  if (op == ReduceOp::kMean) result = result / world_size();
  return result;
}

void Accelerator::broadcast(at::Tensor& tensor, int root) {
  const detail::SpanTimer timer(engine_->spans, engine_->spans.collective());
  const torch::NoGradGuard guard;
  if (root < 0 || root >= world_size())
    throw Error(ErrorCode::kInvalidArgument, "broadcast() from a rank that does not exist", {{"root", std::to_string(root)}}, rank());
  detail::require_agreement(*engine_->communicator, "the tensors given to broadcast()", {"dtype and shape=" + shape_word(tensor, 0)});
  auto values = tensor.detach().contiguous();
  engine_->communicator->broadcast(values, root);
  if (!values.is_same(tensor)) tensor.copy_(values);
}

void Accelerator::wait_for_everyone() {
  const detail::SpanTimer timer(engine_->spans, engine_->spans.collective());
  engine_->communicator->barrier();
}

}  // namespace samerun
