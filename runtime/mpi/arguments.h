#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "movement.h"

/// Checks of what a collective is given; they throw std::invalid_argument naming the collective and what is wrong.
namespace samerun::detail {

/// On the CPU, dense and contiguous. Returns it without its history, sharing its memory.
at::Tensor usable(const char* name, const at::Tensor& tensor);
std::vector<at::Tensor> usable(const char* name, const std::vector<at::Tensor>& tensors);
/// The one tensor of a list.
at::Tensor the_one(const char* name, const std::vector<at::Tensor>& tensors);
/// As many tensors as ranks, each of `like`'s number of elements and dtype.
std::vector<at::Tensor> one_a_rank(const char* name, const std::vector<at::Tensor>& tensors, int ranks, const at::Tensor& like);
void require(bool condition, const char* name, const std::string& text);

/// Where the tensors' bytes are, in their order; the tensors must outlive it.
Pieces pieces_of(const std::vector<at::Tensor>& tensors);

/// "1024 Float"; "3 and 4 Float" for several.
std::string describe(const std::vector<at::Tensor>& tensors);

}  // namespace samerun::detail
