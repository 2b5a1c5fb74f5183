// SPDX-License-Identifier: Apache-2.0
// Compares a gradient, of attention or of a layer, with the forward pass
// itself: the change of the output, multiplied with its own gradient and
// summed, when one row of one input moves, must be the gradient of that row in
// that direction. The change is found by carrying dual numbers through the
// forward pass, so that no formula of a gradient is trusted.
#ifndef QKVET_PROPERTIES_CALLS_ADJOINT_H_
#define QKVET_PROPERTIES_CALLS_ADJOINT_H_

#include "properties/judging/law.h"

namespace qkvet::properties {

// The number of an output in draws. There were 45 inputs before the outputs
// when the first of these were drawn, and further inputs move no case.
inline uint64_t output_in_draws(TensorName output) {
  constexpr uint64_t kFirstInputs = 45;
  return static_cast<uint64_t>(output) - uint64_t{kInputCount} + kFirstInputs;
}

// Judges a gradient of the first call along a row that the seed picks.
void compare_with_change(const JudgeInput& input, TensorName gradient,
                         const char* looks, Judgement& judgement);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_ADJOINT_H_
