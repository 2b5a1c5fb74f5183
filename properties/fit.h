// SPDX-License-Identifier: Apache-2.0
// Parts of what laws fit a case to.
#ifndef QKVET_PROPERTIES_FIT_H_
#define QKVET_PROPERTIES_FIT_H_

#include <algorithm>

#include "core/case.h"

namespace qkvet {

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

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_FIT_H_
