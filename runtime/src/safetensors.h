#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

namespace samerun::detail {

using Metadata = std::map<std::string, std::string>;
using TensorList = std::vector<std::pair<std::string, at::Tensor>>;

/// Writes the safetensors format (8-byte little-endian header length, JSON header, values row-major): aside, synced, renamed.
/// Format: github.com/huggingface/safetensors. Throws kStorage naming the file.
void write_safetensors(const std::string& path, const TensorList& tensors, const Metadata& metadata);

struct SafetensorsFile {
  std::map<std::string, at::Tensor> tensors;
  Metadata metadata;
};
/// Throws kStorage (cannot be read) or kCorruption (header, ranges or sizes that do not fit); never reads out of bounds.
SafetensorsFile read_safetensors(const std::string& path);

}  // namespace samerun::detail
