// SPDX-License-Identifier: Apache-2.0
// Helpers of laws about layers: the call, and what it is made of.
#ifndef QKVET_PROPERTIES_CALLS_LAYER_CALLS_H_
#define QKVET_PROPERTIES_CALLS_LAYER_CALLS_H_

#include "properties/judging/answer.h"
#include "properties/judging/law.h"
#include "reference/layer/layer.h"

namespace qkvet::properties {

// A call of the layer as the case has it; with the stages if the kernel returns
// them.
PlannedCall layer_call(const KernelInfo& kernel);
bool returns_stages(const KernelInfo& kernel);
bool returns_weights(const KernelInfo& kernel);

// "w_o with one row too many"; "" for none.
const char* layer_mistake_text(Mistake mistake);

// The type in which the kernel returns its stages for this case.
Dtype stage_dtype(const JudgeInput& input);

// The least that a law about layers needs of a case.
Case constrain_layer(Case value);
Case constrain_without_biases(Case value);
// For laws that set x and the matrices themselves.
Case fit_own_data(Case value);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_LAYER_CALLS_H_
