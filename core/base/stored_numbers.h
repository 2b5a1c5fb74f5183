// SPDX-License-Identifier: Apache-2.0
// Numbers out of the bytes that they are stored in.
#ifndef QKVET_CORE_BASE_STORED_NUMBERS_H_
#define QKVET_CORE_BASE_STORED_NUMBERS_H_

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace qkvet {

// Each Stored of the bytes, which need not be aligned, as `decode` has it.
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

}  // namespace qkvet

#endif  // QKVET_CORE_BASE_STORED_NUMBERS_H_
