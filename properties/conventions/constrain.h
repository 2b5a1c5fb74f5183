// SPDX-License-Identifier: Apache-2.0
// Parts of laws' constrain().
#ifndef QKVET_PROPERTIES_CONVENTIONS_CONSTRAIN_H_
#define QKVET_PROPERTIES_CONVENTIONS_CONSTRAIN_H_

#include <algorithm>

#include "core/base/floors.h"
#include "core/case/case.h"

namespace qkvet::properties {

// One of 0 .. n - 1, n above 0. Reduced before it becomes signed: half of all
// seeds are negative as an int64_t, and so would be their remainders.
inline int64_t pick_by_seed(uint64_t seed, int64_t n) {
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
  return static_cast<int64_t>(seed % static_cast<uint64_t>(n));
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

inline Case with_two_in_batch(Case value) {
  value.shape.B = std::max<int64_t>(value.shape.B, 2);
  return value;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CONVENTIONS_CONSTRAIN_H_
