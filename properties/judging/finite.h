// SPDX-License-Identifier: Apache-2.0
// The inputs of a kernel which declares that numbers must be finite even if
// they count for nothing: in slots of pages that no member owns, in rows beyond
// the lengths.
#ifndef QKVET_PROPERTIES_JUDGING_FINITE_H_
#define QKVET_PROPERTIES_JUDGING_FINITE_H_

#include "core/base/floors.h"
#include "core/case/case.h"
#include "qkvet/kernel.h"

namespace qkvet::properties {

inline bool needs_finite_slots(const qkvet_dialect& dialect) {
  return dialect.unowned_nonfinite == QKVET_UNOWNED_NOT_IGNORED;
}
inline bool needs_finite_padding(const qkvet_dialect& dialect) {
  return dialect.padding_nonfinite == QKVET_PADDING_NOT_IGNORED;
}

// Replaces NaN by zeros where NaN is not allowed.
inline Paging in_finite_slots(const qkvet_dialect& dialect, Paging paging) {
  if (paging.size > 0 && paging.unowned == Unowned::kNan &&
      needs_finite_slots(dialect))
    paging.unowned = Unowned::kZero;
  return paging;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_FINITE_H_
