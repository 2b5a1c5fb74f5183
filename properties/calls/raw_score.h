// SPDX-License-Identifier: Apache-2.0
// Scores that laws construct.
#ifndef QKVET_PROPERTIES_CALLS_RAW_SCORE_H_
#define QKVET_PROPERTIES_CALLS_RAW_SCORE_H_

#include <cmath>

#include "core/base/half.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// The product of q and k that gives a score of about 2, in natural log units:
// large enough that weights move with the scale, small enough that 1 - w keeps
// its digits under every wrong scale that is tested. A power of two, so that it
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

// Whether scores 2^15 away from 0 keep their differences: types with less than
// 24 bits would lose them, or overflow.
inline bool keeps_far_scores(const Case& value, const PrecisionModel& model) {
  const auto is_wide = [](Dtype dtype) {
    return dtype == Dtype::kF32 || dtype == Dtype::kF64;
  };
  return is_wide(value.q_dtype) && is_wide(value.kv_dtype) &&
         model.dot_u() <= 0x1p-23 && model.block_u == 0 &&
         !model.score.rounds() && !model.operand.rounds() &&
         !model.lse.rounds();
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_RAW_SCORE_H_
