// SPDX-License-Identifier: Apache-2.0
// The weights that a call of attention or of a layer returns: those of a row
// sum to one. The errors of the scores cancel in the sum, so its bound is far
// tighter than that of a single weight.
#ifndef QKVET_PROPERTIES_CALLS_SUM_OF_WEIGHTS_H_
#define QKVET_PROPERTIES_CALLS_SUM_OF_WEIGHTS_H_

#include <vector>

#include "properties/judging/law.h"

namespace qkvet::properties {

// Judges the first call, if it returns weights. `bounds`: of the sums of rows
// [B,H,Tq]; `visible`: the keys that each sees.
void compare_weights_with_one(const JudgeInput& input,
                              const std::vector<double>& bounds,
                              const std::vector<int64_t>& visible,
                              Judgement& judgement);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_SUM_OF_WEIGHTS_H_
