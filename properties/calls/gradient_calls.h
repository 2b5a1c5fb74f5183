// SPDX-License-Identifier: Apache-2.0
// Calls of backward() and of layer_backward().
#ifndef QKVET_PROPERTIES_CALLS_GRADIENT_CALLS_H_
#define QKVET_PROPERTIES_CALLS_GRADIENT_CALLS_H_

#include "core/call/option_numbers.h"
#include "properties/calls/call_pairs.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// The options that laws about gradients allow, except empty extents.
inline constexpr uint64_t kAllowGradients =
    kAllowPairs | (kAllowScores & ~number_options()) |
    number_options(/*of_gradients=*/true) | kOptionLayout | QKVET_OPTION_ROPE |
    QKVET_OPTION_KEY_LISTS;

// One call, with an edit; `truth`: oracle and bound.
PlannedCall backward_call(bool truth, InputEdit edit = nullptr);
PlannedCall layer_backward_call(bool truth, InputEdit edit = nullptr);
// The same case with data of moderate size, so that no score overflows.
Case with_moderate_data(Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_GRADIENT_CALLS_H_
