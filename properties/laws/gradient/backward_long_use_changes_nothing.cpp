// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/gradient_calls.h"
#include "properties/run/long_use.h"

namespace qkvet::properties {
namespace of_backward_long_use_changes_nothing {

// Small, because it is made thousands of times, and with plain data, in which
// each key counts.
Case constrain(Case value) {
  constexpr int64_t kMostTokens = 32;
  Shape& s = value.shape;
  s.Tq = std::min(s.Tq, kMostTokens);
  s.Tk = std::min(s.Tk, kMostTokens);
  value.q = value.k = value.v = value.d_o = {};
  value.set.clear();
  return value;
}

}  // namespace of_backward_long_use_changes_nothing

extern constinit const Law backward_long_use_changes_nothing{
    "backward_long_use_changes_nothing",
    "A call of backward() gives the same answer the thousandth time as the "
    "first time, and leaks no memory, no descriptor and no thread.",
    "backward(x | x .. x) = backward(x)",
    "none",
    kLongUseReason,
    kLongUseRounding,
    kLongUseEarns,
    107,
    Domain{.subject = Subject::kBackward,
           .free_v = false,
           .free_data = false,
           .lasts = true,
           .allows = kAllowGradients},
    of_backward_long_use_changes_nothing::constrain,
    plan_long_use,
    judge_long_use};

}  // namespace qkvet::properties
