#include "streams.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <cstring>

#include "samerun/core/digest.h"

namespace samerun::detail {

void seed_generator(std::uint32_t seed) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

void seed_gpu_generator(c10::Device device, std::uint32_t seed) {
  auto generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

at::Tensor generator_state() {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

std::uint64_t generator_state_digest() {
  const auto state = generator_state();
  const auto digest = digest_bytes(state.const_data_ptr(), state.nbytes());
  std::uint64_t word = 0;
  std::memcpy(&word, digest.bytes.data(), sizeof word);
  return word;
}

}  // namespace samerun::detail
