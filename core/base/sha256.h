// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4), by which a file is known again.
#ifndef QKVET_CORE_BASE_SHA256_H_
#define QKVET_CORE_BASE_SHA256_H_

#include <cstddef>
#include <span>
#include <string>

namespace qkvet {

// 64 digits, the letters among them small.
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_SHA256_H_
