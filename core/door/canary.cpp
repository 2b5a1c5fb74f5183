// SPDX-License-Identifier: Apache-2.0
#include "core/door/canary.h"

#include <algorithm>
#include <cstring>

namespace qkvet {
namespace {

// True if one of the elements has the bits of `pattern`. Without an early end
// in the inner loop, so that compilers use vectors.
template <class Bits>
int64_t find_bits(const std::byte* packed, int64_t elements, Bits pattern) {
  constexpr int64_t kBlock = 512;
  for (int64_t begin = 0; begin < elements; begin += kBlock) {
    const int64_t count = std::min(kBlock, elements - begin);
    Bits block[kBlock];
    const auto size = static_cast<int64_t>(sizeof(Bits));
    std::memcpy(block, packed + begin * size,
                static_cast<size_t>(count * size));
    int hits = 0;
    for (int64_t i = 0; i < count; ++i) hits |= block[i] == pattern;
    if (hits == 0) continue;
    for (int64_t i = 0; i < count; ++i)
      if (block[i] == pattern) return begin + i;
  }
  return -1;
}

}  // namespace

void Canary::fill(std::byte* memory, int64_t begin, int64_t end) const {
  if (begin >= end) return;
  if (low_ == 0x7f) {
    std::memset(memory + begin, 0x7f, static_cast<size_t>(end - begin));
    return;
  }
  // Doubling copies: from an even start every even distance keeps the phase.
  const int64_t seed = std::min<int64_t>(end - begin, 2);
  for (int64_t i = 0; i < seed; ++i) memory[begin + i] = at(begin + i);
  constexpr int64_t kLargestCopy = 4096;
  for (int64_t done = seed; begin + done < end;) {
    const int64_t count =
        std::min({done - done % 2, kLargestCopy, end - begin - done});
    std::memcpy(memory + begin + done, memory + begin,
                static_cast<size_t>(count));
    done += count;
  }
}

bool Canary::intact(const std::byte* memory, int64_t begin, int64_t end) const {
  if (begin < end && memory[begin] != at(begin)) return false;
  if (begin + 1 < end && memory[begin + 1] != at(begin + 1)) return false;
  if (end - begin <= 2) return true;
  return std::memcmp(memory + begin, memory + begin + 2,
                     static_cast<size_t>(end - begin - 2)) == 0;
}

int64_t Canary::first_damage(const std::byte* memory, int64_t begin,
                             int64_t end) const {
  if (intact(memory, begin, end)) return -1;
  for (int64_t i = begin; i < end; ++i)
    if (memory[i] != at(i)) return i;
  return -1;
}

int64_t Canary::last_damage(const std::byte* memory, int64_t begin,
                            int64_t end) const {
  if (intact(memory, begin, end)) return -1;
  for (int64_t i = end; i-- > begin;)
    if (memory[i] != at(i)) return i;
  return -1;
}

int64_t Canary::first_untouched(const std::byte* packed, int64_t elements,
                                int64_t element_bytes) const {
  constexpr uint64_t kUnits = 0x7ffb7ffb7ffb7ffb;
  switch (element_bytes) {
    case 8:
      return find_bits<uint64_t>(packed, elements, kUnits);
    case 4:
      return find_bits(packed, elements, static_cast<uint32_t>(kUnits));
    case 2:
      return find_bits(packed, elements, static_cast<uint16_t>(kUnits));
    default:
      return find_bits<uint8_t>(packed, elements, 0x7f);
  }
}

}  // namespace qkvet
