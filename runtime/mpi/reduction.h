#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include "mpi_call.h"

/// Collectives that combine values. Blocking; every rank of `comm` is there already. Tensors are contiguous and on the CPU, of one shape and dtype
/// on all ranks. All ranks get the same bits. 16-bit floating point is combined in float32, in rank order, and rounded once. An average is the
/// sum, divided by the number of ranks. Throw std::invalid_argument (dtype or operator), std::runtime_error.
namespace samerun::detail {

void all_reduce(const Comm& comm, const at::Tensor& tensor, const c10d::ReduceOp& op);

/// The other ranks' tensors are left as they are.
void reduce(const Comm& comm, const at::Tensor& tensor, const c10d::ReduceOp& op, int root);

/// input: one part a rank, one behind the other; output: this rank's part, combined in rank order. Takes memory for one more input.
void reduce_scatter(const Comm& comm, const at::Tensor& input, const at::Tensor& output, const c10d::ReduceOp& op);

}  // namespace samerun::detail
