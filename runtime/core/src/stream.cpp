#include "samerun/core/stream.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string>

#include "samerun/core/error.h"

namespace samerun {
namespace {

constexpr int kRounds = 6;  ///< Four make a good permutation of good round functions (Luby, Rackoff 1988).

/// Least significant byte first on every machine, so that keys in a record mean the same everywhere.
void append(std::string& bytes, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<char>((value >> shift) & 0xff));
}

/// Parts of fixed length first, so that no two names give the same bytes.
std::uint64_t hash_parts(std::uint64_t seed, std::int64_t epoch, std::uint64_t index, std::string_view purpose) {
  std::string bytes;
  bytes.reserve(24 + purpose.size());
  append(bytes, seed);
  append(bytes, static_cast<std::uint64_t>(epoch));
  append(bytes, index);
  bytes += purpose;
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

std::uint64_t counter_random(std::uint64_t key, std::uint64_t counter) {
  std::uint64_t z = key + (counter + 1) * 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::uint64_t stream_key(const StreamName& name) {
  return hash_parts(name.seed, name.epoch, static_cast<std::uint64_t>(name.index), name.purpose);
}

std::uint32_t stream_seed(const StreamName& name) {
  if (name.index < 0 || name.index > 0xffffffff) {
    throw Error(ErrorCode::kInvalidArgument, "A random stream's index must be from 0 to 4294967295",
                {{"index", std::to_string(name.index)}, {"purpose", std::string(name.purpose)}});
  }
  // An index that no stream can have keeps these keys apart from stream_key's.
  const std::uint64_t rounds_key = hash_parts(name.seed, name.epoch, ~std::uint64_t{0}, name.purpose);
  auto left = static_cast<std::uint32_t>(name.index >> 16);
  auto right = static_cast<std::uint32_t>(name.index & 0xffff);
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    const std::uint64_t mixed = counter_random(counter_random(rounds_key, round), right);
    const std::uint32_t next = left ^ static_cast<std::uint32_t>(mixed >> 48);
    left = right;
    right = next;
  }
  return (left << 16) | right;
}

}  // namespace samerun
