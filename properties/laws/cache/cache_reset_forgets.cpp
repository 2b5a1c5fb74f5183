// SPDX-License-Identifier: Apache-2.0
// Every sequence first gets a prompt of NaN keys and values that fills it, and
// is reset. A later answer that reads any of that, even with weight 0, is NaN.
#include <algorithm>

#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_reset_forgets {

// Large capacities are not filled: stale tokens matter near the front.
constexpr int64_t kLongestPrelude = 64;

Plan plan(const Case& value, const KernelInfo& kernel) {
  EditedStory story;
  const int64_t tokens = std::min(value.capacity, kLongestPrelude);
  for (int64_t s = 0; s < value.shape.B; ++s) {
    story.insert({StoryVerb::kAppend, s, tokens});
    story.insert({StoryVerb::kReset, s, 0});
  }
  for (const StoryCommand& command : value.story) story.keep(command);
  return story.plan(value, kernel);
}

}  // namespace of_cache_reset_forgets

extern constinit const Law cache_reset_forgets{
    "cache_reset_forgets",
    "After a reset a sequence is empty: the second prompt never sees the "
    "first.",
    "prompt 1 (NaN); reset; story = story",
    "a story of legal commands",
    "Tokens that are gone are no part of the history.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches stale tokens that finite values can hide",
    30,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_reset_forgets::plan,
    judge_edited_story};

}  // namespace qkvet::properties
