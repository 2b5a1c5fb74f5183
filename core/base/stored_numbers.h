// SPDX-License-Identifier: Apache-2.0
// Numbers in double, and the bytes that they are stored in, which need not be
// aligned.
#ifndef QKVET_CORE_BASE_STORED_NUMBERS_H_
#define QKVET_CORE_BASE_STORED_NUMBERS_H_

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "core/base/dtype.h"

namespace qkvet {

// Each Stored of the bytes, as `decode` has it.
template <class Stored, class Decode>
std::vector<double> stored_numbers(std::span<const std::byte> bytes,
                                   Decode decode) {
  std::vector<double> numbers(bytes.size() / sizeof(Stored));
  const std::byte* at = bytes.data();
  for (double& number : numbers) {
    Stored stored;
    std::memcpy(&stored, at, sizeof stored);
    number = static_cast<double>(decode(stored));
    at += sizeof stored;
  }
  return numbers;
}

// f64, f32, f16 and bf16: rounds to the type (to nearest, ties to even) and
// stores.
void store_numbers(Dtype dtype, std::span<double> numbers,
                   std::vector<std::byte>& bytes);
std::vector<double> stored_numbers(Dtype dtype,
                                   std::span<const std::byte> bytes);

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_STORED_NUMBERS_H_
