// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/layer_calls.h"
#include "properties/run/long_use.h"

namespace qkvet::properties {

extern constinit const Law layer_long_use_changes_nothing{
    "layer_long_use_changes_nothing",
    "A call of a layer gives the same answer the thousandth time as the first "
    "time, and leaks no memory, no descriptor and no thread.",
    "layer(x | x .. x) = layer(x)",
    "none",
    kLongUseReason,
    kLongUseRounding,
    kLongUseEarns,
    87,
    Domain{.subject = Subject::kLayer, .lasts = true, .allows = kLayerOptions},
    constrain_layer,
    plan_long_use,
    judge_long_use};

}  // namespace qkvet::properties
