#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace samerun::detail {

/// Sets libtorch's default CPU generator. Only the low 32 bits of a seed act.
void seed_generator(std::uint32_t seed);
/// The same of a GPU's own generator, whose numbers are others.
void seed_gpu_generator(c10::Device device, std::uint32_t seed);
/// The generator's full state, a copy.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);
/// A digest of the generator's state: differs as soon as a number was drawn.
std::uint64_t generator_state_digest();

}  // namespace samerun::detail
