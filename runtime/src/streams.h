#pragma once

#include <cstdint>

namespace samerun::detail {

/// Sets libtorch's default CPU generator. Only the low 32 bits of a seed act.
void seed_generator(std::uint32_t seed);
/// A digest of the generator's state: differs as soon as a number was drawn.
std::uint64_t generator_state_digest();

}  // namespace samerun::detail
