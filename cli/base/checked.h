// SPDX-License-Identifier: Apache-2.0
// Sizes that users type in: their products need not fit.
#ifndef QKVET_CLI_BASE_CHECKED_H_
#define QKVET_CLI_BASE_CHECKED_H_

#include <cstdint>
#include <initializer_list>
#include <optional>

namespace qkvet::cli {

// Absent if it is larger than 2^63 - 1. The factors are not negative.
inline std::optional<int64_t> checked_product(
    std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors)
    if (__builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  return product;
}

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_CHECKED_H_
