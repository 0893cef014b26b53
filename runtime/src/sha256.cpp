#include "sha256.h"

#include <openssl/evp.h>

#include <array>

#include "samerun/core/error.h"

namespace samerun::detail {
namespace {

void require(int outcome) {
  if (outcome != 1) throw Error(ErrorCode::kInternal, "libcrypto cannot compute a SHA-256");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}
Sha256::~Sha256() = default;

void Sha256::add(const void* data, std::size_t size_bytes) {
  require(EVP_DigestUpdate(context_.get(), data, size_bytes));
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(context_.get(), bytes.data(), &size));
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += "0123456789abcdef"[bytes[i] >> 4];
    text += "0123456789abcdef"[bytes[i] & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes.data(), bytes.size());
  return sum.hex();
}

}  // namespace samerun::detail
