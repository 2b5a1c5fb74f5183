// SPDX-License-Identifier: Apache-2.0
// The bytes of memory that is forbidden or still unwritten. For types of 2
// bytes and more the pattern is the 16-bit unit 0x7ffb, which is a NaN in f64,
// f32, f16 and bf16 with a payload that no arithmetic makes; for types of 1
// byte it is 0x7f, the NaN of both fp8 formats.
#ifndef QKVET_CORE_DOOR_CANARY_H_
#define QKVET_CORE_DOOR_CANARY_H_

#include <cstddef>
#include <cstdint>

namespace qkvet {

class Canary {
 public:
  explicit Canary(int64_t element_bytes)
      : low_(element_bytes == 1 ? 0x7f : 0xfb) {}

  // Ranges are byte offsets [begin, end) into memory that starts on an even
  // address; the pattern's phase counts from there.
  void fill(std::byte* memory, int64_t begin, int64_t end) const;
  // The first (or last) byte of the range that is not the pattern; -1 if none.
  int64_t first_damage(const std::byte* memory, int64_t begin,
                       int64_t end) const;
  int64_t last_damage(const std::byte* memory, int64_t begin,
                      int64_t end) const;
  // The number of the first packed element that is still the pattern; -1.
  int64_t first_untouched(const std::byte* packed, int64_t elements,
                          int64_t element_bytes) const;

  friend bool operator==(const Canary&, const Canary&) = default;

 private:
  std::byte at(int64_t offset) const {
    return static_cast<std::byte>(offset % 2 == 0 ? low_ : 0x7f);
  }
  bool intact(const std::byte* memory, int64_t begin, int64_t end) const;

  uint8_t low_;  // at even offsets; 0x7f at odd ones
};

}  // namespace qkvet

#endif  // QKVET_CORE_DOOR_CANARY_H_
