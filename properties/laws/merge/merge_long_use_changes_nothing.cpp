// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/merge_calls.h"
#include "properties/run/long_use.h"

namespace qkvet::properties {
namespace of_merge_long_use_changes_nothing {

Case constrain(Case value) { return constrain_merge(std::move(value)); }

}  // namespace of_merge_long_use_changes_nothing

extern constinit const Law merge_long_use_changes_nothing{
    "merge_long_use_changes_nothing",
    "A merge gives the same answer the thousandth time as the first time, and "
    "leaks no memory, no descriptor and no thread.",
    "merge(x | x .. x) = merge(x)",
    "none",
    kLongUseReason,
    kLongUseRounding,
    kLongUseEarns,
    93,
    Domain{
        .subject = Subject::kMerge, .lasts = true, .allows = kAllowRaggedMerge},
    of_merge_long_use_changes_nothing::constrain,
    plan_long_use,
    judge_long_use};

}  // namespace qkvet::properties
