// SPDX-License-Identifier: Apache-2.0
// An order that looks random, and is the same on every run: exposes a judge
// that assumes that neighbours are added together.
#ifndef QKVET_IMPL_CONTROLS_SHUFFLED_H_
#define QKVET_IMPL_CONTROLS_SHUFFLED_H_

#include <bit>
#include <cstdint>

namespace qkvet::impl {

// 0 .. n - 1, each once: a linear congruence of full period modulo the next
// power of two (Hull and Dobell: factor 1 mod 4, odd increment), mixed by an
// invertible shift; numbers from n on are skipped.
class Shuffled {
 public:
  explicit Shuffled(int64_t n)
      : n_(static_cast<uint64_t>(n)),
        mask_(std::bit_ceil(n_) - 1),
        shift_(static_cast<int>(std::bit_width(mask_) + 1) / 2) {}

  int64_t next() {
    constexpr uint64_t kFactor = 0x9E3779B97F4A7C15, kIncrement = 0x5851F42D;
    for (;;) {
      state_ = (state_ * kFactor + kIncrement) & mask_;
      const uint64_t mixed = state_ ^ state_ >> shift_;
      if (mixed < n_) {
        return static_cast<int64_t>(mixed);
      }
    }
  }

 private:
  uint64_t n_, mask_;
  int shift_;
  uint64_t state_ = 0;
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_CONTROLS_SHUFFLED_H_
