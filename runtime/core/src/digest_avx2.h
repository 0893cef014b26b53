#pragma once

#include <cstddef>

namespace samerun::detail {

/// XXH3-128 in canonical byte order, 16 bytes. Only on processors with AVX2.
void xxh3_avx2(const void* data, std::size_t size_bytes, unsigned char* canonical);

}  // namespace samerun::detail
