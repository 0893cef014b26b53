// Compiled for AVX2, called only where the processor has it. XXH3 gives the same bits on every path. All of xxHash is
// static here, and nothing else is included, so that no function compiled for AVX2 can stand in for another file's.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "digest_avx2.h"

#if XXH_VECTOR != XXH_AVX2
#error "this file is to be compiled with AVX2"
#endif

namespace samerun::detail {

void xxh3_avx2(const void* data, std::size_t size_bytes, unsigned char* canonical) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, XXH3_128bits(data, size_bytes));
  for (std::size_t i = 0; i < sizeof bytes.digest; ++i) canonical[i] = bytes.digest[i];
}

}  // namespace samerun::detail
