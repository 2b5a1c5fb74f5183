// SPDX-License-Identifier: Apache-2.0
// A score that laws aim at.
#ifndef QKVET_PROPERTIES_CALLS_RAW_SCORE_H_
#define QKVET_PROPERTIES_CALLS_RAW_SCORE_H_

#include <cmath>

#include "core/base/half.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// The product of q and k whose score is about 2, in natural log units: large
// enough that weights move with the scale, small enough that 1 - w keeps its
// digits under every wrong scale that is looked for. A power of two, so that it
// is exact in every storage type, and so is its product with 1.
inline double raw_score(const Case& value) {
  constexpr double kAim = 2;
  const double scale = std::fabs(scale_of(value));
  return std::exp2(std::nearbyint(std::log2(kAim / scale)));
}

// Whether that number can be stored and computed with.
inline bool has_raw_score(const Case& value) {
  const double g = raw_score(value);
  return g > 0x1p-100 && g < 0x1p100 && round_to(value.q_dtype, g) == g;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_RAW_SCORE_H_
