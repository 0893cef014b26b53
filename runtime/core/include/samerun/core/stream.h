#pragma once

#include <cstdint>
#include <string_view>

namespace samerun {

/// The logical name of a random stream: which run, what for, where.
struct StreamName {
  std::uint64_t seed = 0;
  std::string_view purpose;  ///< "train", "evaluation", "filler", ...
  std::int64_t epoch = 0;
  std::int64_t index = 0;  ///< Global batch index (or sample id), 0 <= index < 2^32.
};

/// 64-bit key that stands in the record: XXH3-64 of the name's parts.
std::uint64_t stream_key(const StreamName& name);

/// 32-bit seed for libtorch's CPU generator, which uses only the low 32 bits of a seed. A Feistel bijection of
/// `index` with round keys from XXH3(seed, purpose, epoch): within one (seed, purpose, epoch) no two indices collide.
/// Throws kInvalidArgument for an index out of range.
std::uint32_t stream_seed(const StreamName& name);

/// Counter-based generator: value number `counter` of the stream `key` (SplitMix64 finaliser, Steele et al. 2014).
std::uint64_t counter_random(std::uint64_t key, std::uint64_t counter);

}  // namespace samerun
