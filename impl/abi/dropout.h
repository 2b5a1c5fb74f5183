// SPDX-License-Identifier: Apache-2.0
// Which weights a call drops: a counter-based generator, so that forward() and
// backward() find the same ones in any order and on any number of threads.
//
// The numbers seed, offset, b, h, i, j are stirred into one word one after the
// other by the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast Splittable
// Pseudorandom Number Generators", OOPSLA 2014, 3), all 64 bits of each; the
// keys of a row are a sequence of that generator. A weight is dropped where the
// upper 24 bits, as a fraction, lie below p. Cost: six rounds a pair.
#ifndef QKVET_IMPL_ABI_DROPOUT_H_
#define QKVET_IMPL_ABI_DROPOUT_H_

#include <cstdint>
#include <initializer_list>

namespace qkvet::impl {

struct Dropout {
  float p = 0;  // 0: nothing is dropped
  uint64_t seed = 0, offset = 0;
  // Where this call begins in the one that it is a part of.
  int64_t b = 0, h = 0, i = 0, j = 0;

  bool present() const { return p > 0; }

  static uint64_t stirred(uint64_t word, uint64_t number) {
    word += UINT64_C(0x9E3779B97F4A7C15) * (number + 1);
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return word ^ word >> 31;
  }

  bool keeps(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const {
    uint64_t word = stirred(seed, offset);
    for (const int64_t place : {b + in_b, h + in_h, i + in_i, j + in_j}) {
      word = stirred(word, static_cast<uint64_t>(place));
    }
    return static_cast<float>(word >> 40) * 0x1p-24f >= p;
  }

  // The factor of the weights that are kept.
  float scale() const { return 1 / (1 - p); }
  // What a weight is multiplied by.
  float factor(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const {
    return keeps(in_b, in_h, in_i, in_j) ? scale() : 0;
  }

  Dropout from(int64_t in_b, int64_t in_h, int64_t in_i, int64_t in_j) const {
    return {p, seed, offset, b + in_b, h + in_h, i + in_i, j + in_j};
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_ABI_DROPOUT_H_
