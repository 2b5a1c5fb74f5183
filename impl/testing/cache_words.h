// SPDX-License-Identifier: Apache-2.0
// For the tests of caches: tokens are numbers, and what a token says (its q, k
// and v) depends on its number only.
#ifndef QKVET_IMPL_TESTING_CACHE_WORDS_H_
#define QKVET_IMPL_TESTING_CACHE_WORDS_H_

#include <cstdint>
#include <vector>

#include "impl/testing/any_tensor.h"
#include "impl/testing/family_fixture.h"
#include "qkvet/kernel.h"

namespace qkvet::impl {

enum class Coded { kNot, kInt8, kFp8 };

struct CacheProblem {
  int64_t sequences = 1, heads = 1, kv_heads = 1;
  int64_t width = 4, value_width = 3, capacity = 16;
  Storage type = Storage::kF32;
  bool scale_given = false;
  float scale = 0;
  Layout layout = Layout::kBhtd;
  int32_t rope = QKVET_ROPE_NONE;
  int64_t window = 0, first_tokens = 0, rollback = 0;
  Coded coded = Coded::kNot;
  bool per_channel = false;
  float slope = 0;  // of head h: slope * (h + 1); 0: no ALiBi
  float sink = 0;   // of head h: sink * (h + 1); 0: none
  float softcap = 0;
  int64_t hidden = 0;  // the masks of steps hide one pair in so many; 0: none
  float bias = 0;      // of pairs: bias * (-3 .. 3); 0: none

  // Whether the masks show the key at position j to the query at position i.
  bool shows(int64_t h, int64_t i, int64_t j) const {
    return hidden == 0 || i == j || (i + 2 * j + h) % hidden != 1;
  }
  float bias_of(int64_t h, int64_t i, int64_t j) const {
    return bias * float((h + 3 * i + 5 * j) % 7 - 3);
  }
  // Whether the query at position p sees key j.
  bool sees(int64_t p, int64_t j) const {
    return j <= p && (window == 0 || j > p - window || j < first_tokens);
  }
};
// A token whose key and value are NaN.
inline constexpr uint64_t kNanToken = ~uint64_t{0};

enum class Part : uint8_t { kKey, kValue, kQuery };

float word(const CacheProblem& p, Part part, uint64_t token, int64_t head,
           int64_t c);
// What a cache makes of it: the same, or the nearest code times its scale.
double kept(const CacheProblem& p, Part part, uint64_t token, int64_t head,
            int64_t c);

// The scale of a channel, for the configuration: some numbers are beyond the
// largest code.
float channel_scale(const CacheProblem& p, int64_t head, int64_t c);
// All 127 numbers of fp8 e4m3 that are not negative, ascending.
const std::vector<double>& e4m3_numbers();

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_CACHE_WORDS_H_
