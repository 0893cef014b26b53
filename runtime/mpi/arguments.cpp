#include "arguments.h"

#include <stdexcept>

namespace samerun::detail {

void require(bool condition, const char* name, const std::string& text) {
  if (!condition) throw std::invalid_argument(std::string(name) + ": " + text);
}

at::Tensor usable(const char* name, const at::Tensor& tensor) {
  require(tensor.defined(), name, "a tensor is undefined");
  require(tensor.device().is_cpu(), name, "a tensor is on " + tensor.device().str() + ", and MPI carries tensors on the CPU");
  require(tensor.layout() == at::kStrided, name, "a tensor is sparse; make it dense (to_dense()) first");
  require(tensor.is_contiguous(), name, "a tensor is not contiguous; pass tensor.contiguous()");
  return tensor.detach();
}

std::vector<at::Tensor> usable(const char* name, const std::vector<at::Tensor>& tensors) {
  require(!tensors.empty(), name, "no tensor was given");
  std::vector<at::Tensor> result;
  for (const auto& tensor : tensors) result.push_back(usable(name, tensor));
  return result;
}

at::Tensor the_one(const char* name, const std::vector<at::Tensor>& tensors) {
  require(tensors.size() == 1, name, "one tensor is wanted, and " + std::to_string(tensors.size()) + " were given");
  return usable(name, tensors[0]);
}

std::vector<at::Tensor> one_a_rank(const char* name, const std::vector<at::Tensor>& tensors, int ranks, const at::Tensor& like) {
  require(tensors.size() == static_cast<std::size_t>(ranks), name,
          "one tensor for each of the " + std::to_string(ranks) + " ranks is wanted, and " + std::to_string(tensors.size()) + " were given");
  auto result = usable(name, tensors);
  for (const auto& tensor : result)
    require(tensor.numel() == like.numel() && tensor.scalar_type() == like.scalar_type(), name,
            "tensors differ: " + describe({tensor}) + " and " + describe({like}));
  return result;
}

Pieces pieces_of(const std::vector<at::Tensor>& tensors) {
  Pieces pieces;
  for (const auto& tensor : tensors) {
    pieces.places.push_back(static_cast<char*>(tensor.mutable_data_ptr()));
    pieces.bytes.push_back(tensor.nbytes());
  }
  return pieces;
}

std::string describe(const std::vector<at::Tensor>& tensors) {
  std::string text;
  for (std::size_t i = 0; i < tensors.size() && i < 8; ++i) {
    if (i > 0) text += " and ";
    text += std::to_string(tensors[i].numel()) + " " + c10::toString(tensors[i].scalar_type());
  }
  return text + (tensors.size() > 8 ? " and " + std::to_string(tensors.size() - 8) + " more" : "");
}

}  // namespace samerun::detail
