// SPDX-License-Identifier: Apache-2.0
#include "properties/run/long_use.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_long_use_changes_nothing {

// A story is short, because it runs thousands of times, each time on a new
// cache.
Case constrain(Case value) {
  constexpr size_t kMostCommands = 12;
  if (value.story.size() > kMostCommands) value.story.resize(kMostCommands);
  return constrain_to_legal(std::move(value));
}

}  // namespace of_cache_long_use_changes_nothing

extern constinit const Law cache_long_use_changes_nothing{
    "cache_long_use_changes_nothing",
    "A cache that is made, used and destroyed gives the same answer the "
    "thousandth time as the first time, and leaks no memory, no descriptor and "
    "no thread.",
    "story(x | x .. x) = story(x)",
    "none",
    kLongUseReason,
    kLongUseRounding,
    kLongUseEarns,
    125,
    Domain{.subject = Subject::kCache, .lasts = true, .allows = kAllowForms},
    of_cache_long_use_changes_nothing::constrain,
    plan_long_use,
    judge_long_use};

}  // namespace qkvet::properties
