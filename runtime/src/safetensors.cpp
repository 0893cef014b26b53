#include "safetensors.h"

#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "samerun/core/error.h"
#include "samerun/core/file.h"

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

/// Larger elements first: a reader may map the file, and each tensor then starts at a multiple of its element's size.
std::vector<std::size_t> file_order(const TensorList& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return tensors[a].second.element_size() > tensors[b].second.element_size(); });
  return order;
}

bool is_utf8(const std::string& text) {
  try {
    return !Json(text).dump().empty();
  } catch (const Json::exception&) {
    return false;
  }
}

/// A header is UTF-8. Throws kStorage with the name or text that is not.
void require_utf8(const std::string& what, const std::string& text) {
  if (is_utf8(text)) return;
  throw Error(ErrorCode::kStorage, "names and texts in a safetensors file must be UTF-8, and one is not",
              {{what, Json(text.substr(0, 200)).dump(-1, ' ', true, Json::error_handler_t::replace)}});
}

/// The ranges are in the order of `tensors`, from the end of the header.
std::string header_of(const TensorList& tensors, const Metadata& metadata, std::vector<ByteRange>& ranges) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  for (const auto& [name, text] : metadata) {
    require_utf8("name", name);
    require_utf8("text of " + name, text);
  }
  std::uint64_t offset = 0;
  ranges.resize(tensors.size());
  for (const auto index : file_order(tensors)) {
    const auto& [name, tensor] = tensors[index];
    require_utf8("tensor", name);
    ranges[index] = {offset, offset + tensor.nbytes()};
    const auto word = dtype_words().find(tensor.scalar_type());
    if (word == dtype_words().end())
      throw Error(ErrorCode::kStorage, "the safetensors format has no word for this dtype",
                  {{"tensor", name}, {"dtype", c10::toString(tensor.scalar_type())}});
    header[name] = {{"dtype", word->second}, {"shape", tensor.sizes().vec()}, {"data_offsets", {ranges[index].begin, ranges[index].end}}};
    offset = ranges[index].end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // values start at a multiple of 8
  return text;
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

at::Tensor tensor_from(const Json& entry, std::string_view values, ByteRange& range) {
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
bool cover_all(std::vector<ByteRange> ranges, std::uint64_t size) {
  std::sort(ranges.begin(), ranges.end(),
            [](const ByteRange& a, const ByteRange& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  std::uint64_t reached = 0;
  for (const auto& range : ranges) {
    if (range.begin != reached) return false;
    reached = range.end;
  }
  return reached == size;
}

SafetensorsFile parse_parts(std::string_view header, std::string_view values) {
  SafetensorsFile file;
  std::vector<ByteRange> ranges;
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

std::vector<ByteRange> write_safetensors(const ByteSink& sink, const TensorList& tensors, const Metadata& metadata) {
  std::vector<ByteRange> ranges;
  const auto header = header_of(tensors, metadata, ranges);
  const std::uint64_t size = header.size();
  sink(&size, sizeof size);
  sink(header.data(), header.size());
  for (const auto index : file_order(tensors)) {
    const auto values = tensors[index].second.to(at::kCPU).contiguous();
    sink(values.const_data_ptr(), values.nbytes());
  }
  for (auto& range : ranges) range = {range.begin + sizeof size + size, range.end + sizeof size + size};
  return ranges;
}

void write_safetensors(const std::string& path, const TensorList& tensors, const Metadata& metadata) {
  const std::string aside = path + ".partial";
  std::optional<FileWriter> file;  // made once the header is known to be possible
  write_safetensors(
      [&](const void* data, std::size_t size) {
        if (!file) file.emplace(aside);
        file->write(data, size);
      },
      tensors, metadata);
  file->finish();
  rename_path(aside, path);
}

SafetensorsFile parse_safetensors(std::string_view bytes) {
  std::uint64_t header_size = 0;
  if (bytes.size() >= sizeof header_size) std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (bytes.size() < sizeof header_size || header_size > kMostHeaderBytes || header_size > bytes.size() - sizeof header_size)
    throw Error(ErrorCode::kCorruption, "not a safetensors file: its header does not fit");
  bytes.remove_prefix(sizeof header_size);
  try {
    return parse_parts(bytes.substr(0, header_size), bytes.substr(header_size));
  } catch (const Json::exception& error) {
    throw Error(ErrorCode::kCorruption, std::string("the header is not valid: ") + error.what());
  }
}

SafetensorsFile read_safetensors(const std::string& path) {
  const auto bytes = read_file(path);
  try {
    return parse_safetensors(bytes);
  } catch (const Error& error) {
    throw Error(error.code(), error.what(), {{"file", path}});
  }
}

}  // namespace samerun::detail
