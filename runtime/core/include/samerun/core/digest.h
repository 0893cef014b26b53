#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace samerun {

/// XXH3-128 in canonical (big-endian) byte order: equal bytes give equal digests on every machine.
struct Digest {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const Digest&) const = default;
};

Digest digest_bytes(const void* data, std::size_t size_bytes);
Digest digest_text(std::string_view text);
/// Digest of a list of digests, in order: the "root digest" of a stage.
Digest digest_list(std::span<const Digest> digests);
/// a + b modulo 2^128: an order-free combination, for the contents of a dataset.
Digest add(const Digest& a, const Digest& b);

std::string to_hex(const Digest& digest);      ///< 32 lower-case hex digits.
Digest digest_from_hex(std::string_view hex);  ///< Throws kCorruption if not 32 hex digits.

}  // namespace samerun
