// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/run/long_use.h"

namespace qkvet::properties {
namespace of_long_use_changes_nothing {

// Small, because it is made thousands of times, and with plain data, in which
// each key counts.
Case constrain(Case value) {
  constexpr int64_t kMostTokens = 64;
  Shape& s = value.shape;
  s.Tq = std::min(s.Tq, kMostTokens);
  s.Tk = std::min(s.Tk, kMostTokens);
  value.q = value.k = value.v = value.d_o = {};
  value.set.clear();
  return value;
}

}  // namespace of_long_use_changes_nothing

extern constinit const Law long_use_changes_nothing{
    "long_use_changes_nothing",
    "A call gives the same answer the thousandth time as the first time, and "
    "leaks no memory, no descriptor and no thread.",
    "forward(x | x .. x) = forward(x)",
    "none",
    kLongUseReason,
    kLongUseRounding,
    kLongUseEarns,
    567,
    Domain{.free_v = false,
           .free_data = false,
           .lasts = true,
           .allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing | QKVET_OPTION_KEY_LISTS |
                     kAllowFields},
    of_long_use_changes_nothing::constrain,
    plan_long_use,
    judge_long_use};

}  // namespace qkvet::properties
