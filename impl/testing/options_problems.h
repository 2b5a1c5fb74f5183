// SPDX-License-Identifier: Apache-2.0
// The calls with options that tests ask of every kernel.
#ifndef QKVET_IMPL_TESTING_OPTIONS_PROBLEMS_H_
#define QKVET_IMPL_TESTING_OPTIONS_PROBLEMS_H_

#include <cstdint>
#include <vector>

#include "impl/testing/options_fixture.h"

namespace qkvet::impl {

inline constexpr uint64_t kOptions[] = {
    QKVET_OPTION_WINDOW,  QKVET_OPTION_MASK,   QKVET_OPTION_BIAS,
    QKVET_OPTION_SOFTCAP, QKVET_OPTION_SINK,   QKVET_OPTION_ALIBI,
    QKVET_OPTION_LENGTHS, QKVET_OPTION_PACKED, QKVET_OPTION_ALIBI_PER_MEMBER};

// Members of many lengths: none, one, all.
inline void give_lengths(Asked* asked, uint64_t n) {
  const Problem& p = asked->problem;
  if (asked->has(QKVET_OPTION_LENGTHS)) {
    const int64_t rows[] = {p.queries, 0, p.queries / 2 + 1};
    const int64_t keys[] = {p.keys / 2, p.keys, 0, 1};
    for (int64_t b = 0; b < p.batch; ++b) {
      asked->q_len.push_back(rows[(uint64_t(b) + n) % 3]);
      asked->kv_len.push_back(keys[(uint64_t(b) + n) % 4]);
    }
    if (n % 3 == 1) {
      asked->q_len.clear();
    } else if (n % 3 == 2) {
      asked->kv_len.clear();
    }
  }
  if (asked->has(QKVET_OPTION_PACKED)) {
    asked->problem.batch = 1;
    asked->cu_q = {0, 2, 2, 5, p.queries - int64_t(n % 2)};
    asked->cu_k = {0, 3, 5, 5, p.keys - int64_t(n % 3)};
  }
}

// Call number n with these options.
inline Asked asked_with(uint64_t options, uint64_t n) {
  constexpr int64_t kWindows[][2] = {{0, 0}, {2, 1}, {-1, 2}, {3, -1}, {1, 0}};
  constexpr int64_t kExtents[][2] = {
      {7, 9}, {9, 7}, {8, 8}, {6, 150}, {70, 17}};
  Asked a;
  a.options = options;
  if (a.has(QKVET_OPTION_ALIBI_PER_MEMBER)) {
    a.options |= QKVET_OPTION_ALIBI;
  }
  a.problem = {.batch = 3,
               .heads = 4,
               .kv_heads = 2,
               .queries = kExtents[n % 5][0],
               .keys = kExtents[n % 5][1],
               .width = 5,
               .value_width = n % 2 == 0 ? 5 : 3,
               .causal = int32_t(n % 3),
               .scale_given = n % 4 == 0,
               .scale = 0.7f,
               .layout = static_cast<Layout>(hash(n, 2) % 4),
               .seed = n + 1};
  a.own = uint8_t(hash(n, 3) % 16);
  a.left = kWindows[hash(n, 4) % 5][0];
  a.right = kWindows[hash(n, 4) % 5][1];
  a.bias_in_half = n % 2 == 0;
  a.empty_row = hash(n, 5) % 2 == 0 ? 3 : -1;
  give_lengths(&a, n);
  return a;
}

// Every option alone, every pair, and all together.
inline std::vector<Asked> all_calls(uint64_t variants) {
  std::vector<Asked> list;
  uint64_t n = 0;
  for (const uint64_t first : kOptions) {
    for (const uint64_t second : kOptions) {
      const uint64_t both = first | second;
      if (second < first ||
          both == (QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED)) {
        continue;
      }
      for (uint64_t variant = 0; variant < variants; ++variant) {
        list.push_back(asked_with(both, n++));
      }
    }
  }
  for (uint64_t variant = 0; variant < variants; ++variant) {
    uint64_t all = 0;
    for (const uint64_t option : kOptions) {
      all |= option;
    }
    list.push_back(asked_with(all & ~QKVET_OPTION_PACKED, n++));
    list.push_back(asked_with(all & ~QKVET_OPTION_LENGTHS, n++));
  }
  return list;
}

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_TESTING_OPTIONS_PROBLEMS_H_
