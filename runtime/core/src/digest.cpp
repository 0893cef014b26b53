#include "samerun/core/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "samerun/core/error.h"
#ifdef __x86_64__
#include "digest_avx2.h"
#endif

namespace samerun {
namespace {

#ifdef __x86_64__
constexpr std::size_t kLongInput = 1024;  // XXH3 uses vectors above 240 bytes only
#endif

/// Value of a hexadecimal digit, -1 for any other character. Not std::isxdigit, which depends on the locale.
int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

}  // namespace

Digest digest_bytes(const void* data, std::size_t size_bytes) {
#ifdef __x86_64__
  // Three times as fast as the SSE2 that every x86-64 has, and digests are most of what recording costs.
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2 && size_bytes >= kLongInput) {
    Digest digest;
    detail::xxh3_avx2(data, size_bytes, digest.bytes.data());
    return digest;
  }
#endif
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size_bytes));
  Digest digest;
  for (std::size_t i = 0; i < digest.bytes.size(); ++i) digest.bytes[i] = canonical.digest[i];
  return digest;
}

Digest digest_text(std::string_view text) {
  return digest_bytes(text.data(), text.size());
}

Digest digest_list(std::span<const Digest> digests) {
  static_assert(sizeof(Digest) == 16, "a list of digests must be their bytes, one after the other");
  return digest_bytes(digests.data(), digests.size_bytes());
}

Digest add(const Digest& a, const Digest& b) {
  Digest sum;
  unsigned carry = 0;
  for (std::size_t i = sum.bytes.size(); i-- > 0;) {
    carry += unsigned{a.bytes[i]} + unsigned{b.bytes[i]};
    sum.bytes[i] = static_cast<std::uint8_t>(carry & 0xff);
    carry >>= 8;
  }
  return sum;
}

std::string to_hex(const Digest& digest) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * digest.bytes.size());
  for (const std::uint8_t byte : digest.bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

Digest digest_from_hex(std::string_view hex) {
  Digest digest;
  bool good = hex.size() == 2 * digest.bytes.size();
  for (std::size_t i = 0; good && i < digest.bytes.size(); ++i) {
    const int high = digit_value(hex[2 * i]);
    const int low = digit_value(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) digest.bytes[i] = static_cast<std::uint8_t>(16 * high + low);
  }
  if (!good) throw Error(ErrorCode::kCorruption, "A stored digest is not 32 hexadecimal digits", {{"text", std::string(hex)}});
  return digest;
}

}  // namespace samerun
