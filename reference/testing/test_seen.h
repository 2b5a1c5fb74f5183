// SPDX-License-Identifier: Apache-2.0
// The keys that a row sees, by a predicate of the tests' own.
#ifndef QKVET_REFERENCE_TESTING_TEST_SEEN_H_
#define QKVET_REFERENCE_TESTING_TEST_SEEN_H_

#include <cmath>
#include <vector>

#include "reference/arithmetic/oracle.h"

namespace qkvet::reference {

struct TestSeen {
  bool counted = true;
  int64_t begin = 0;  // of the member
  int64_t diagonal = 0;
  int64_t member = 0;
  std::vector<int64_t> keys;
};

inline TestSeen test_seen(const Problem& problem, int64_t row) {
  const Shape& s = problem.shape;
  const int64_t b = row / (s.H * s.Tq);
  const int64_t i = row % s.Tq;
  int64_t q0 = 0;
  int64_t q1 = problem.q_len != nullptr ? problem.q_len[b] : s.Tq;
  int64_t k1 = problem.kv_len != nullptr ? problem.kv_len[b] : s.Tk;
  TestSeen seen;
  seen.member = b;
  if (problem.members > 0) {
    int64_t m = 0;
    while (m < problem.members && i >= problem.cu_q[m + 1]) ++m;
    seen.counted = m < problem.members && i >= problem.cu_q[0];
    if (!seen.counted) return seen;
    seen.member = m;
    q0 = problem.cu_q[m];
    q1 = problem.cu_q[m + 1];
    seen.begin = problem.cu_k[m];
    k1 = problem.cu_k[m + 1];
  }
  seen.counted = i < q1;
  if (!seen.counted) return seen;
  const bool top_left = problem.causal == Causal::kTopLeft;
  seen.diagonal = seen.begin + (i - q0);
  if (!top_left) seen.diagonal += (k1 - seen.begin) - (q1 - q0);
  for (int64_t j = seen.begin; j < k1; ++j) {
    const int64_t ahead = j - seen.diagonal;
    bool hidden = problem.causal != Causal::kNone && ahead > 0;
    if (problem.window) {
      const Window& w = *problem.window;
      hidden = hidden || (w.right >= 0 && ahead > w.right) ||
               (w.left >= 0 && -ahead > w.left);
    }
    const int64_t pair = row * s.Tk + j;
    if (problem.mask != nullptr) hidden = hidden || problem.mask[pair] == 0;
    if (problem.listed.keys != nullptr) {
      const ListedKeys& all = problem.listed;
      const int64_t h = row / s.Tq % s.H;
      const int64_t list = all.heads == 1 ? 0 : h / (s.H / s.Hkv);
      const int32_t* at =
          all.keys + ((b * all.heads + list) * s.Tq + i) * all.entries;
      int64_t left = all.counts ? all.counts[b * s.Tq + i] : all.entries;
      bool there = false;
      while (left-- > 0) there = there || *at++ == j - seen.begin;
      hidden = hidden || !there;
    }
    const bool capped = problem.softcap > 0 && problem.softcap_after_bias;
    if (problem.bias != nullptr && !capped) {
      hidden = hidden || problem.bias[pair] == -HUGE_VAL;
    }
    if (!hidden) seen.keys.push_back(j);
  }
  return seen;
}

}  // namespace qkvet::reference

#endif  // QKVET_REFERENCE_TESTING_TEST_SEEN_H_
