#include "safetensors.h"

#include <fcntl.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

using Json = nlohmann::json;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit

const std::map<at::ScalarType, std::string>& dtype_words() {
  static const std::map<at::ScalarType, std::string> words{{at::kFloat, "F32"}, {at::kDouble, "F64"}, {at::kBFloat16, "BF16"}, {at::kHalf, "F16"},
                                                           {at::kLong, "I64"},  {at::kInt, "I32"},    {at::kShort, "I16"},     {at::kChar, "I8"},
                                                           {at::kByte, "U8"},   {at::kBool, "BOOL"}};
  return words;
}

[[noreturn]] void storage_error(const std::string& what, const std::string& path) {
  throw Error(ErrorCode::kStorage, what + ": " + std::strerror(errno), {{"file", path}});
}

void write_all(int fd, const void* data, std::size_t size, const std::string& path) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const auto written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) storage_error("cannot write; free some space or choose another folder", path);
    bytes += written;
    size -= static_cast<std::size_t>(written);
  }
}

std::string header_of(const TensorList& tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto end = offset + tensor.nbytes();
    const auto word = dtype_words().find(tensor.scalar_type());
    if (word == dtype_words().end())
      throw Error(ErrorCode::kStorage, "the safetensors format has no word for this dtype",
                  {{"tensor", name}, {"dtype", c10::toString(tensor.scalar_type())}});
    header[name] = {{"dtype", word->second}, {"shape", tensor.sizes().vec()}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // values start at a multiple of 8
  return text;
}

void write_file(const std::string& path, const TensorList& tensors, const Metadata& metadata) {
  const auto header = header_of(tensors, metadata);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) storage_error("cannot create", path);
  try {
    const std::uint64_t size = header.size();
    write_all(fd, &size, sizeof size, path);
    write_all(fd, header.data(), header.size(), path);
    for (const auto& item : tensors) {
      const auto values = item.second.contiguous();
      write_all(fd, values.const_data_ptr(), values.nbytes(), path);
    }
    if (::fsync(fd) != 0) storage_error("cannot sync", path);
  } catch (...) {
    ::close(fd);
    throw;
  }
  if (::close(fd) != 0) storage_error("cannot close", path);
}

/// Whole numbers only: the JSON library would cut fractions off and wrap negative numbers around.
template <class T>
std::vector<T> whole_numbers(const Json& list) {
  std::vector<T> numbers;
  for (const auto& item : list.get<std::vector<Json>>()) {
    const bool fits = item.is_number_unsigned() && item.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
    if (!fits) throw Error(ErrorCode::kCorruption, "not a whole number of at least 0: " + item.dump().substr(0, 40));
    numbers.push_back(item.get<T>());
  }
  return numbers;
}

struct Range {
  std::uint64_t begin = 0, end = 0;
};

/// Bytes of a tensor; nullopt where that is no number. A dimension of 0 does not excuse the others.
std::optional<std::uint64_t> byte_count(const std::vector<std::int64_t>& shape, at::ScalarType type) {
  std::int64_t most = static_cast<std::int64_t>(c10::elementSize(type));
  bool none = false;
  for (const auto size : shape) {
    none = none || size == 0;
    if (size > 0 && __builtin_mul_overflow(most, size, &most)) return std::nullopt;
  }
  return none ? 0 : static_cast<std::uint64_t>(most);
}

at::Tensor tensor_from(const Json& entry, const std::vector<char>& values, Range& range) {
  const auto fail = [](const std::string& what) { throw Error(ErrorCode::kCorruption, what); };
  const auto word = entry.at("dtype").get<std::string>();
  std::optional<at::ScalarType> type;
  for (const auto& [candidate, text] : dtype_words()) {
    if (text == word) type = candidate;
  }
  if (!type) fail("unknown dtype " + word);
  const auto shape = whole_numbers<std::int64_t>(entry.at("shape"));
  const auto ends = whole_numbers<std::uint64_t>(entry.at("data_offsets"));
  if (ends.size() != 2 || ends[0] > ends[1] || ends[1] > values.size()) fail("its range is outside the file");
  range = {ends[0], ends[1]};
  const auto bytes = byte_count(shape, *type);
  if (!bytes) fail("its shape is not possible");
  if (*bytes != range.end - range.begin) fail("its shape does not fit its range");
  auto tensor = at::empty(shape, at::TensorOptions(*type));
  if (*bytes > 0) std::memcpy(tensor.data_ptr(), values.data() + range.begin, *bytes);
  return tensor;
}

/// The format allows neither holes nor overlaps nor a rest: a byte that no tensor covers was not written by a writer of it.
bool cover_all(std::vector<Range> ranges, std::uint64_t size) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t reached = 0;
  for (const auto& range : ranges) {
    if (range.begin != reached) return false;
    reached = range.end;
  }
  return reached == size;
}

SafetensorsFile parse_file(const std::string& header, const std::vector<char>& values) {
  SafetensorsFile file;
  std::vector<Range> ranges;
  const auto json = Json::parse(header);
  if (!json.is_object()) throw Error(ErrorCode::kCorruption, "the header is not an object");
  for (const auto& [name, entry] : json.items()) {
    if (name == "__metadata__") {
      file.metadata = entry.get<Metadata>();
      continue;
    }
    try {
      file.tensors.emplace(name, tensor_from(entry, values, ranges.emplace_back()));
    } catch (const Error& error) {
      throw Error(error.code(), "tensor '" + name + "': " + error.what());
    }
  }
  if (!cover_all(std::move(ranges), values.size())) throw Error(ErrorCode::kCorruption, "the tensors' ranges overlap or leave bytes out");
  return file;
}

}  // namespace

void write_safetensors(const std::string& path, const TensorList& tensors, const Metadata& metadata) {
  const std::string aside = path + ".partial";
  write_file(aside, tensors, metadata);
  if (::rename(aside.c_str(), path.c_str()) != 0) storage_error("cannot rename into place", path);
}

SafetensorsFile read_safetensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) storage_error("cannot open", path);
  std::error_code code;
  const auto total = std::filesystem::file_size(path, code);
  std::uint64_t header_size = 0;
  if (code || total < sizeof header_size || !in.read(reinterpret_cast<char*>(&header_size), sizeof header_size) || header_size > kMostHeaderBytes ||
      header_size > total - sizeof header_size)
    throw Error(ErrorCode::kCorruption, "not a safetensors file: its header does not fit", {{"file", path}});
  std::string header(header_size, '\0');
  std::vector<char> values(total - sizeof header_size - header_size);
  if (!in.read(header.data(), static_cast<std::streamsize>(header.size())) ||
      (!values.empty() && !in.read(values.data(), static_cast<std::streamsize>(values.size()))))
    throw Error(ErrorCode::kCorruption, "the file is shorter than its size", {{"file", path}});
  try {
    return parse_file(header, values);
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorruption, std::string("the header is not valid: ") + error.what(), {{"file", path}});
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), {{"file", path}});
  }
}

}  // namespace samerun::detail
