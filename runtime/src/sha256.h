#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace samerun::detail {

/// SHA-256 of what is added, by libcrypto.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  void add(const void* data, std::size_t size_bytes);
  std::string hex();  ///< 64 lower-case hex digits; ends the sum.

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace samerun::detail
