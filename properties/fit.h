// SPDX-License-Identifier: Apache-2.0
// Taking out of a case what a law cannot have.
#ifndef QKVET_PROPERTIES_FIT_H_
#define QKVET_PROPERTIES_FIT_H_

#include <algorithm>

#include "core/case.h"

namespace qkvet {

// Nothing depends on where a key stands: no causal rule, window, mask, bias,
// ALiBi, lengths or packed members.
inline Case without_positions(Case value) {
  value.causal = Causal::kNone;
  value.window.reset();
  value.mask = {};
  value.score_bias.reset();
  value.score_bias_own = kOwnAll;
  value.slopes.reset();
  value.q_len.clear();
  value.kv_len.clear();
  value.cu_q.clear();
  value.cu_k.clear();
  return value;
}

// Scores are scale * q.k alone, and all weights belong to keys.
inline Case with_plain_scores(Case value) {
  value.score_bias.reset();
  value.score_bias_own = kOwnAll;
  value.slopes.reset();
  value.softcap = 0;
  value.sink.reset();
  return value;
}

inline Case without_set_values(Case value, TensorName tensor) {
  std::erase_if(value.set,
                [&](const SetValue& set) { return set.tensor == tensor; });
  return value;
}

// Two key/value heads at least, with the heads that there are if possible.
inline Case with_two_kv_heads(Case value) {
  Shape& s = value.shape;
  if (s.Hkv < 2) s.Hkv = s.H = std::max<int64_t>(s.H, 2);
  return value;
}

// Two batch members at least.
inline Case with_two_members(Case value) {
  value.cu_q.clear();
  value.cu_k.clear();
  if (value.shape.B >= 2) return value;
  value.shape.B = 2;
  value.q_len.clear();
  value.kv_len.clear();
  return value;
}

// Every extent is there.
inline Case without_empty_extents(Case value) {
  Shape& s = value.shape;
  for (int64_t* extent : {&s.B, &s.Tq, &s.Tk})
    *extent = std::max<int64_t>(*extent, 1);
  return value;
}

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_FIT_H_
