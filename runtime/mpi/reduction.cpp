#include "reduction.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>

#include "arguments.h"
#include "element.h"
#include "movement.h"

namespace samerun::detail {
namespace {

using Op = c10d::ReduceOp;

bool averages(const Op& op) {
  return static_cast<Op::RedOpType>(op) == Op::AVG;
}

/// Elements of one MPI call over `blocks` blocks.
std::int64_t most_elements(const Comm& comm, const Element& element, int blocks) {
  const auto bytes = element.bytes * static_cast<std::size_t>(element.count) * static_cast<std::size_t>(blocks);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(comm.most_bytes / bytes));
}

void combine(at::Tensor& sum, const at::Tensor& next, const Op& op) {
  switch (static_cast<Op::RedOpType>(op)) {
    case Op::PRODUCT:
      sum.mul_(next);
      break;
    case Op::MIN:
      at::minimum_out(sum, sum, next);
      break;
    case Op::MAX:
      at::maximum_out(sum, sum, next);
      break;
    default:
      sum.add_(next);
  }
}

/// parts: what this rank has of each rank's part. Returns what each rank has of this rank's part.
std::vector<at::Tensor> exchange(const Comm& comm, const std::vector<at::Tensor>& parts) {
  std::vector<at::Tensor> received;
  for (int r = 0; r < comm.size; ++r) received.push_back(at::empty_like(parts[static_cast<std::size_t>(comm.rank)]));
  all_to_all_bytes(comm, pieces_of(parts), pieces_of(received));
  return received;
}

/// This rank's part combined over all ranks, in rank order, by MPI's operator.
at::Tensor combine_native(const Comm& comm, const std::vector<at::Tensor>& parts, const Element& element, MPI_Op op) {
  const auto received = exchange(comm, parts);
  const auto& sum = received[0];
  const std::int64_t most = most_elements(comm, element, 1);
  for (std::size_t r = 1; r < received.size(); ++r) {
    for (std::int64_t first = 0; first < sum.numel(); first += most) {
      const std::int64_t length = std::min(most, sum.numel() - first);
      check_mpi(MPI_Reduce_local(received[r].narrow(0, first, length).const_data_ptr(), sum.narrow(0, first, length).mutable_data_ptr(),
                                 static_cast<int>(length) * element.count, element.type, op),
                "MPI_Reduce_local");
    }
  }
  return sum;
}

/// This rank's part combined over all ranks, in rank order, rounded to the parts' dtype.
at::Tensor combine_narrow(const Comm& comm, const std::vector<at::Tensor>& parts, const Op& op) {
  const auto& own = parts[static_cast<std::size_t>(comm.rank)];
  const auto received = exchange(comm, parts);
  auto sum = received[0].to(at::kFloat);
  for (std::size_t r = 1; r < received.size(); ++r) combine(sum, received[r].to(at::kFloat), op);
  if (averages(op)) sum.div_(comm.size);
  return sum.to(own.scalar_type());
}

/// Cut as evenly as it goes; the same on all ranks.
std::vector<at::Tensor> cut(const at::Tensor& flat, int size) {
  std::vector<at::Tensor> parts;
  for (int r = 0; r < size; ++r) {
    const std::int64_t first = flat.numel() * r / size, last = flat.numel() * (r + 1) / size;
    parts.push_back(flat.narrow(0, first, last - first));
  }
  return parts;
}

/// As a ring does it: each rank combines one part, then all get all parts.
void all_reduce_narrow(const Comm& comm, at::Tensor& flat, const Op& op) {
  const auto parts = cut(flat, comm.size);
  const auto mine = combine_narrow(comm, parts, op);
  const std::vector<at::Tensor> outgoing(static_cast<std::size_t>(comm.size), mine);
  all_to_all_bytes(comm, pieces_of(outgoing), pieces_of(parts));
}

void reduce_native(const Comm& comm, at::Tensor& flat, const Op& op, int root) {
  const auto element = element_of(flat.scalar_type());
  const auto mpi_op = operator_of(op, element, flat.scalar_type());
  const bool everywhere = root < 0;
  const std::int64_t most = most_elements(comm, element, 1);
  for (std::int64_t first = 0; first < flat.numel(); first += most) {
    auto piece = flat.narrow(0, first, std::min(most, flat.numel() - first));
    const int count = static_cast<int>(piece.numel()) * element.count;
    void* data = piece.mutable_data_ptr();
    if (everywhere) {
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, data, count, element.type, mpi_op, comm.handle), "MPI_Allreduce");
    } else {
      const bool here = comm.rank == root;
      check_mpi(MPI_Reduce(here ? MPI_IN_PLACE : data, here ? data : nullptr, count, element.type, mpi_op, root, comm.handle), "MPI_Reduce");
    }
  }
  if (averages(op) && (everywhere || comm.rank == root)) flat.div_(comm.size);
}

}  // namespace

void all_reduce(const Comm& comm, const at::Tensor& tensor, const Op& op) {
  auto flat = tensor.view({-1});
  const auto element = element_of(flat.scalar_type());
  if (!element.narrow) return reduce_native(comm, flat, op, -1);
  operator_of(op, element, flat.scalar_type());
  all_reduce_narrow(comm, flat, op);
}

void reduce(const Comm& comm, const at::Tensor& tensor, const Op& op, int root) {
  auto flat = tensor.view({-1});
  if (!element_of(flat.scalar_type()).narrow) return reduce_native(comm, flat, op, root);
  auto copy = comm.rank == root ? flat : flat.clone();
  all_reduce(comm, copy, op);
}

void reduce_scatter(const Comm& comm, const at::Tensor& input, const at::Tensor& output, const Op& op) {
  const auto element = element_of(output.scalar_type());
  const auto mpi_op = operator_of(op, element, output.scalar_type());
  const auto whole = input.view({comm.size, -1});
  auto mine = output.view({-1});
  std::vector<at::Tensor> parts;
  for (int r = 0; r < comm.size; ++r) parts.push_back(whole[r]);
  mine.copy_(element.narrow ? combine_narrow(comm, parts, op) : combine_native(comm, parts, element, mpi_op));
  if (averages(op) && !element.narrow) mine.div_(comm.size);
}

}  // namespace samerun::detail
