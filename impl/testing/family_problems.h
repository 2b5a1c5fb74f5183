// SPDX-License-Identifier: Apache-2.0
// The shapes of the smoke tests.
#ifndef QKVET_IMPL_TESTING_FAMILY_PROBLEMS_H_
#define QKVET_IMPL_TESTING_FAMILY_PROBLEMS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "impl/testing/family_fixture.h"

namespace qkvet::impl {

// How many shapes or variants a test looks at: `few` at each submission, where
// the laws judge every kernel on thousands of others (check.*), and
// QKVET_TEST_FACTOR times as many at night (ci/long.sh).
inline int count_of(int few) {
  const char* const factor = std::getenv("QKVET_TEST_FACTOR");
  return factor == nullptr ? few : few * std::atoi(factor);
}

inline constexpr double kMostFlops = 2e6;

template <size_t N>
int64_t pick(const int64_t (&list)[N], uint64_t seed, uint64_t index) {
  return list[hash(seed, index) % N];
}

// Problem number n: extents around the steps of lanes, panels and tiles.
inline Problem problem_number(uint64_t n) {
  constexpr int64_t kLengths[] = {1,  2,  3,   5,   6,   7,   8,   9,   12, 13,
                                  15, 16, 17,  31,  33,  48,  49,  50,  63, 65,
                                  96, 97, 127, 128, 129, 144, 200, 257, 300};
  constexpr int64_t kWidths[] = {1,  2,  3,  4,  5,  7,  8,  9,  12,
                                 15, 16, 17, 24, 31, 33, 40, 64, 72};
  constexpr int64_t kHeads[][2] = {{1, 1}, {2, 2}, {4, 2},
                                   {6, 2}, {5, 1}, {3, 3}};
  constexpr float kScales[] = {0.0f, 1.0f, -0.7f, 0.125f, 9.0f};
  for (uint64_t seed = n * 64 + 1;; ++seed) {
    Problem p;
    p.seed = seed;
    p.batch = 1 + int64_t(hash(seed, 1) % 2);
    p.heads = kHeads[hash(seed, 2) % 6][0];
    p.kv_heads = kHeads[hash(seed, 2) % 6][1];
    p.queries = pick(kLengths, seed, 3);
    p.keys = hash(seed, 4) % 3 == 0 ? p.queries : pick(kLengths, seed, 5);
    p.width = pick(kWidths, seed, 6);
    p.value_width = hash(seed, 7) % 2 == 0 ? p.width : pick(kWidths, seed, 8);
    p.causal = int32_t(hash(seed, 9) % 3);
    p.scale_given = hash(seed, 10) % 3 == 0;
    p.scale = kScales[hash(seed, 11) % 5];
    p.layout = static_cast<Layout>(hash(seed, 12) % 4);
    p.place = static_cast<Placement>(hash(seed, 13) % 2);
    const double flops = double(p.batch * p.heads * p.queries * p.keys) *
                         double(p.width + p.value_width);
    if (flops <= kMostFlops) {
      return p;
    }
  }
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_FAMILY_PROBLEMS_H_
