// SPDX-License-Identifier: Apache-2.0
// How many keys a query row sees. Keys are seen from the first on, so the
// count says which ones. Stated once more here, apart from reference/ and
// impl/, so that no two of them can share a mistake.
#ifndef QKVET_PROPERTIES_VISIBILITY_H_
#define QKVET_PROPERTIES_VISIBILITY_H_

#include <algorithm>

#include "core/case.h"

namespace qkvet {

inline int64_t visible_keys(const Case& value, int64_t row) {
  const Shape& s = value.shape;
  switch (value.causal) {
    case Causal::kNone:
      return s.Tk;
    case Causal::kTopLeft:
      return std::min(s.Tk, row + 1);
    case Causal::kBottomRight:
      return std::clamp<int64_t>(row + 1 + s.Tk - s.Tq, 0, s.Tk);
  }
  return s.Tk;
}

// Rows 0 .. n - 1 are those that have at least one masked key.
inline int64_t rows_with_masked_keys(const Case& value) {
  int64_t n = 0;
  while (n < value.shape.Tq && visible_keys(value, n) < value.shape.Tk) ++n;
  return n;
}

// Makes the case causal, with a masked and a visible key in some row.
inline Case with_masked_key(Case value) {
  if (value.causal == Causal::kNone) value.causal = Causal::kTopLeft;
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  if (value.causal == Causal::kBottomRight)
    value.shape.Tq = std::max<int64_t>(value.shape.Tq, 2);
  return value;
}

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_VISIBILITY_H_
