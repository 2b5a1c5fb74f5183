// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_calls.h"
#include "properties/run/long_use.h"

namespace qkvet::properties {

extern constinit const Law layer_backward_long_use_changes_nothing{
    "layer_backward_long_use_changes_nothing",
    "A call of layer_backward() gives the same answer the thousandth time as "
    "the first time, and leaks no memory, no descriptor and no thread.",
    "layer_backward(x | x .. x) = layer_backward(x)",
    "none",
    kLongUseReason,
    kLongUseRounding,
    kLongUseEarns,
    33,
    Domain{.subject = Subject::kLayerBackward,
           .lasts = true,
           .allows = kLayerOptions},
    constrain_layer,
    plan_long_use,
    judge_long_use};

}  // namespace qkvet::properties
