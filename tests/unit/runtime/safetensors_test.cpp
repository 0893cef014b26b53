#include "safetensors.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "samerun-safetensors-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder");
    folder_ = pattern;
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "a.safetensors") const { return (folder_ / name).string(); }

  /// A file with this header and that many bytes of values.
  std::string file(const std::string& header, std::size_t values) const {
    std::uint64_t size = header.size();
    std::string bytes(sizeof size, '\0');
    std::memcpy(bytes.data(), &size, sizeof size);
    return raw(bytes + header + std::string(values, '\1'));
  }
  std::string raw(const std::string& bytes) const {
    std::ofstream(path("bad"), std::ios::binary) << bytes;
    return path("bad");
  }
  static void expect_corruption(const std::string& file, const std::string& why) {
    try {
      read_safetensors(file);
      ADD_FAILURE() << "accepted: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruption) << why << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << "the file is not named: " << error.what();
    }
  }

  std::filesystem::path folder_;
};

TEST_F(SafetensorsTest, EveryDtypeComesBackBitForBit) {
  TensorList written;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> special{0.0, -0.0, infinity, -infinity, std::numeric_limits<double>::quiet_NaN(), 5e-324};
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    written.emplace_back(c10::toString(type), torch::arange(6).reshape({2, 3}).to(type));
  }
  written.emplace_back("special", torch::tensor(special));
  write_safetensors(path(), written, {});
  const auto read = read_safetensors(path());
  ASSERT_EQ(read.tensors.size(), written.size());
  for (const auto& [name, tensor] : written) {
    const auto& back = read.tensors.at(name);
    EXPECT_EQ(back.scalar_type(), tensor.scalar_type()) << name;
    ASSERT_EQ(back.sizes(), tensor.sizes()) << name;
    EXPECT_EQ(std::memcmp(back.const_data_ptr(), tensor.const_data_ptr(), tensor.nbytes()), 0) << name;
  }
}

TEST_F(SafetensorsTest, EmptyTensorsScalarsAndStridedTensorsComeBack) {
  const auto matrix = torch::arange(6, at::kFloat).reshape({2, 3});
  write_safetensors(path(), {{"none", torch::empty({0})}, {"rows", torch::empty({3, 0, 2})}, {"scalar", torch::tensor(4.0)}, {"turned", matrix.t()}},
                    {});
  const auto read = read_safetensors(path());
  EXPECT_EQ(read.tensors.at("none").sizes(), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(read.tensors.at("rows").sizes(), (std::vector<std::int64_t>{3, 0, 2}));
  EXPECT_EQ(read.tensors.at("scalar").dim(), 0);
  EXPECT_EQ(read.tensors.at("scalar").item<float>(), 4.0F);
  EXPECT_TRUE(read.tensors.at("turned").equal(matrix.t()));
}

TEST_F(SafetensorsTest, MetadataAndFilesWithoutTensorsComeBack) {
  const Metadata metadata{{"format", "pt"}, {"quotes", "\"\\\n"}, {"utf8", "\xc3\xa9"}};
  write_safetensors(path(), {}, metadata);
  const auto read = read_safetensors(path());
  EXPECT_TRUE(read.tensors.empty());
  EXPECT_EQ(read.metadata, metadata);
}

TEST_F(SafetensorsTest, WritingReplacesTheFileAndLeavesNothingBeside) {
  write_safetensors(path(), {{"a", torch::ones({1000})}}, {});
  write_safetensors(path(), {{"a", torch::zeros({2})}}, {});
  EXPECT_EQ(read_safetensors(path()).tensors.at("a").numel(), 2);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(SafetensorsTest, AFolderThatIsNotThereIsAStorageError) {
  for (const auto& act :
       std::initializer_list<std::function<void()>>{[&] { write_safetensors(path("no/a"), {}, {}); }, [&] { read_safetensors(path("no/a")); }}) {
    try {
      act();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kStorage);
      EXPECT_NE(std::string(error.what()).find("no/a"), std::string::npos) << error.what();
    }
  }
}

TEST_F(SafetensorsTest, ADtypeThatTheFormatLacksIsRefusedBeforeAnythingIsWritten) {
  EXPECT_THROW(write_safetensors(path(), {{"a", torch::zeros({2}, at::kComplexFloat)}}, {}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

// What was said of such a name was the JSON library's "invalid UTF-8 byte at index 16".
TEST_F(SafetensorsTest, NamesAndTextsThatAreNotUtf8AreNamedAndNothingIsWritten) {
  const std::string bad = "loss\xff";
  const auto expect_named = [&](const TensorList& tensors, const Metadata& metadata, const std::string& name) {
    try {
      write_safetensors(path(), tensors, metadata);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kStorage);
      EXPECT_NE(std::string(error.what()).find("must be UTF-8"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  expect_named({{bad, torch::ones({1})}}, {}, "tensor=\"loss\\ufffd\"");
  expect_named({}, {{bad, "text"}}, "name=\"loss\\ufffd\"");
  expect_named({}, {{"user/words/first", bad}}, "text of user/words/first=\"loss\\ufffd\"");
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(SafetensorsTest, AHeaderThatDoesNotFitTheFileIsCorruption) {
  expect_corruption(raw(""), "empty");
  expect_corruption(raw("1234567"), "seven bytes");
  expect_corruption(raw(std::string(8, '\xff')), "a length of 2^64 - 1");
  expect_corruption(raw(std::string("\0\0\0\0\0\0\0\x80", 8) + "{}"), "a length of 2^63");
  expect_corruption(raw(std::string("\x03\0\0\0\0\0\0\0", 8) + "{}"), "one byte more than there is");
  expect_corruption(raw(std::string("\0\xe1\xf5\x06\0\0\0\0", 8) + "{}"), "above the format's limit");
}

TEST_F(SafetensorsTest, AHeaderThatIsNotAnObjectOfObjectsIsCorruption) {
  for (const char* header :
       {"", "{", "nonsense", "null", "[]", "7", "\"a\"", "[{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}]", "{\"a\":1}", "{\"a\":{}}",
        "{\"a\":[]}", "{\"__metadata__\":{\"a\":1}}", "{\"__metadata__\":[]}", "{\"\xff\":1}", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}",
        "{\"a\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", "{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}"})
    expect_corruption(file(header, 4), header);
}

TEST_F(SafetensorsTest, DeepNestingIsCorruptionAndNotAStackOverflow) {
  for (const char* piece : {"[", "{\"a\":"}) {
    std::string header;
    for (int i = 0; i < 1'000'000; ++i) header += piece;
    expect_corruption(file(header, 0), "deep");
  }
  const std::string closed = "{\"a\":" + std::string(500'000, '[') + std::string(500'000, ']') + "}";
  expect_corruption(file(closed, 0), "deep and closed");
}

TEST_F(SafetensorsTest, RangesThatDoNotFitTheValuesAreCorruption) {
  for (const char* range : {"[0,5]", "[1,5]", "[4,0]", "[0,3]", "[0]", "[0,4,4]", "[]", "[-4,0]", "[0,-1]", "[0.5,4.5]", "[0,18446744073709551615]",
                            "[\"0\",\"4\"]", "4", "[0,1e300]"})
    expect_corruption(file(std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":") + range + "}}", 4), range);
}

TEST_F(SafetensorsTest, OverlapsHolesAndRestsAreCorruption) {
  const auto two = [](const char* first, const char* second) {
    return std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":") + first +
           "},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":" + second + "}}";
  };
  EXPECT_EQ(read_safetensors(file(two("[4,8]", "[0,4]"), 8)).tensors.size(), 2u) << "any order is right";
  expect_corruption(file(two("[0,4]", "[0,4]"), 4), "the same bytes twice");
  expect_corruption(file(two("[0,4]", "[2,6]"), 6), "an overlap");
  expect_corruption(file(two("[0,4]", "[6,10]"), 10), "a hole");
  expect_corruption(file(two("[2,6]", "[6,10]"), 10), "a hole at the start");
  expect_corruption(file(two("[0,4]", "[4,8]"), 9), "a byte that is no tensor's");
  expect_corruption(file("{}", 4), "values without a tensor");
}

TEST_F(SafetensorsTest, ShapesThatAreNotPossibleAreCorruption) {
  for (const char* shape : {"[-1]", "[-1,-1]", "[1,-1]", "[9223372036854775807,9223372036854775807,4]", "[4611686018427387905]", "[2]", "[1.5]",
                            "[1e300]", "[\"1\"]", "1", "null", "[[1]]", "[18446744073709551615]", "[true]"})
    expect_corruption(file(std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":") + shape + ",\"data_offsets\":[0,4]}}", 4), shape);
  for (const char* shape : {"[0,4611686018427387904,4611686018427387904]", "[4611686018427387904,0]", "[4611686018427387904,4611686018427387904,0]"})
    expect_corruption(file(std::string("{\"a\":{\"dtype\":\"F32\",\"shape\":") + shape + ",\"data_offsets\":[0,0]}}", 0), shape);
}

TEST_F(SafetensorsTest, NoFileCutShortAndNoChangedHeaderByteGetsPastTheReader) {
  write_safetensors(path(), {{"weight", torch::arange(6, at::kFloat)}, {"bias", torch::ones({3}, at::kLong)}}, {{"format", "pt"}});
  std::ifstream in(path(), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t size = 0; size < good.size(); ++size) expect_corruption(raw(good.substr(0, size)), "cut to " + std::to_string(size));
  std::uint64_t header = 0;
  std::memcpy(&header, good.data(), sizeof header);
  for (std::size_t at = 0; at < 8 + header; ++at) {
    for (const int flip : {0x01, 0x08, 0x80}) {
      auto bad = good;
      bad[at] = static_cast<char>(bad[at] ^ flip);
      try {
        read_safetensors(raw(bad));  // a changed name or blank is no damage that a reader can see
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kCorruption) << at << ": " << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace samerun::detail
