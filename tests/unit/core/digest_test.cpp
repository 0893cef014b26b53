#include "samerun/core/digest.h"

#include <gtest/gtest.h>

#include <vector>

#include "samerun/core/error.h"

namespace samerun {
namespace {

// Values of the xxHash project's own program (xxhsum -H2).
TEST(DigestTest, IsCanonicalXxh3Of128Bits) {
  EXPECT_EQ(to_hex(digest_text("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(to_hex(digest_bytes(nullptr, 0)), "99aa06d3014798d86001c324468d497f");
}

// Values of xxHash's code without vectors: whatever this processor has must give the same.
TEST(DigestTest, LongInputsHaveTheSameDigestOnEveryProcessor) {
  std::vector<unsigned char> bytes;
  for (int i = 0; i < 1'000'003; ++i) bytes.push_back(static_cast<unsigned char>(i % 251));
  EXPECT_EQ(to_hex(digest_bytes(bytes.data(), 1023)), "4325711b0ed4d742d3d91d80ac495685");
  EXPECT_EQ(to_hex(digest_bytes(bytes.data(), 1024)), "d0ac1f7b93bf57b9e5d78bafa45b2aa5");
  EXPECT_EQ(to_hex(digest_bytes(bytes.data(), 1025)), "2882ebca04ec915ce95c42288f28186e");
  EXPECT_EQ(to_hex(digest_bytes(bytes.data(), bytes.size())), "ff7880a76b3ad0273bd135bb217f309d");
}

TEST(DigestTest, EqualBytesGiveEqualDigestsAndOneBitMakesOthers) {
  std::vector<unsigned char> bytes(5000, 7);
  const Digest before = digest_bytes(bytes.data(), bytes.size());
  EXPECT_EQ(before, digest_bytes(bytes.data(), bytes.size()));
  for (const std::size_t at : {std::size_t{0}, std::size_t{2500}, std::size_t{4999}}) {
    bytes[at] ^= 1;
    EXPECT_NE(before, digest_bytes(bytes.data(), bytes.size())) << at;
    bytes[at] ^= 1;
  }
  EXPECT_NE(before, digest_bytes(bytes.data(), bytes.size() - 1));
}

TEST(DigestTest, ListIsTheDigestOfItsBytesInOrder) {
  const std::vector<Digest> list = {digest_text("a"), digest_text("b")};
  const std::vector<Digest> swapped = {list[1], list[0]};
  std::vector<std::uint8_t> bytes(list[0].bytes.begin(), list[0].bytes.end());
  bytes.insert(bytes.end(), list[1].bytes.begin(), list[1].bytes.end());
  EXPECT_EQ(digest_list(list), digest_bytes(bytes.data(), bytes.size()));
  EXPECT_NE(digest_list(list), digest_list(swapped));
  EXPECT_EQ(digest_list({}), digest_text(""));
}

TEST(DigestTest, HexGoesThereAndBack) {
  const Digest digest = digest_text("some text");
  EXPECT_EQ(to_hex(digest).size(), 32U);
  EXPECT_EQ(digest_from_hex(to_hex(digest)), digest);
  EXPECT_EQ(to_hex(digest_from_hex("0123456789ABCDEFfedcba9876543210")), "0123456789abcdeffedcba9876543210");
}

TEST(DigestTest, TextThatIsNoDigestIsCorruption) {
  for (const char* text : {"", "12", "0123456789abcdef0123456789abcde", "0123456789abcdef0123456789abcdef0", "0123456789abcdef0123456789abcdeg"}) {
    try {
      digest_from_hex(text);
      FAIL() << "accepted \"" << text << "\"";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCorruption);
      EXPECT_EQ(error.context().at("text"), text);
    }
  }
}

TEST(DigestTest, AdditionCarriesFromByteToByteAndWrapsAround) {
  const Digest one = digest_from_hex("00000000000000000000000000000001");
  EXPECT_EQ(to_hex(add(digest_from_hex("000000000000000000000000000000ff"), one)), "00000000000000000000000000000100");
  EXPECT_EQ(to_hex(add(digest_from_hex("0000000000000000ffffffffffffffff"), one)), "00000000000000010000000000000000");
  EXPECT_EQ(to_hex(add(digest_from_hex("ffffffffffffffffffffffffffffffff"), one)), "00000000000000000000000000000000");
}

TEST(DigestTest, SumsDoNotDependOnOrder) {
  const Digest a = digest_text("a"), b = digest_text("b"), c = digest_text("c");
  EXPECT_EQ(add(add(a, b), c), add(add(c, a), b));
  EXPECT_NE(add(a, b), add(a, c));
  EXPECT_EQ(add(a, Digest{}), a);
}

}  // namespace
}  // namespace samerun
