// SPDX-License-Identifier: Apache-2.0
#include "core/base/sha256.h"

#include <sha2.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace qkvet {

std::string sha256_hex(std::span<const std::byte> bytes) {
  SHA2_CTX context;
  SHA256Init(&context);
  if (!bytes.empty())  // an empty span may be null
    SHA256Update(&context, reinterpret_cast<const uint8_t*>(bytes.data()),
                 bytes.size());
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  SHA256Final(digest.data(), &context);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) {
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

}  // namespace qkvet
