#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace samerun::detail {

using Metadata = std::map<std::string, std::string>;
using TensorList = std::vector<std::pair<std::string, at::Tensor>>;

/// Takes the bytes of a file in order.
using ByteSink = std::function<void(const void* data, std::size_t size_bytes)>;
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
};

/// Gives `sink` a file of the format; returns where each tensor stands in it, from the file's start. Throws kStorage (a dtype that the
/// format does not have), and what `sink` throws.
std::vector<ByteRange> write_safetensors(const ByteSink& sink, const TensorList& tensors, const Metadata& metadata);
/// Writes the safetensors format (8-byte little-endian header length, JSON header, values row-major): aside, synced, renamed.
/// Format: github.com/huggingface/safetensors. Throws kStorage naming the file.
void write_safetensors(const std::string& path, const TensorList& tensors, const Metadata& metadata);

struct SafetensorsFile {
  std::map<std::string, at::Tensor> tensors;
  Metadata metadata;
};
/// Throws kCorruption (header, ranges or sizes that do not fit); never reads out of bounds.
SafetensorsFile parse_safetensors(std::string_view bytes);
/// Throws kStorage (cannot be read) or kCorruption (header, ranges or sizes that do not fit); never reads out of bounds.
SafetensorsFile read_safetensors(const std::string& path);

}  // namespace samerun::detail
