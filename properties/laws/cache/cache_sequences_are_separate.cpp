// SPDX-License-Identifier: Apache-2.0
// Sequence a goes through its story, and between its commands every other
// sequence is filled with NaN, token by token. An answer for a that reads one
// of them, even with weight 0, is NaN.
#include <algorithm>

#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_sequences_are_separate {

Case constrain(Case value) {
  value.shape.B = std::max<int64_t>(value.shape.B, 2);
  std::erase_if(value.story, [](const StoryCommand& command) {
    // Commands that copy sequences mix them on purpose.
    return command.sequence != 0 || command.verb >= StoryVerb::kFork;
  });
  return constrain_to_legal(std::move(value));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  EditedStory story;
  int64_t others = 0;  // tokens that each other sequence holds
  const auto fill_others = [&](int64_t tokens) {
    tokens = std::min(tokens, value.capacity - others);
    others += tokens;
    for (int64_t s = 1; s < value.shape.B && tokens > 0; ++s)
      story.insert({StoryVerb::kAppend, s, tokens});
  };
  fill_others(2);
  for (const StoryCommand& command : value.story) {
    story.keep(command);
    fill_others(1);
  }
  return story.plan(value, kernel);
}

}  // namespace of_cache_sequences_are_separate

extern constinit const Law cache_sequences_are_separate{
    "cache_sequences_are_separate",
    "The content of one sequence never reaches another.",
    "story(a), others NaN = story(a), others empty",
    "a story of legal commands; at least two sequences",
    "A history holds the tokens of its own sequence only.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches tokens of others that finite values can hide",
    60,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    of_cache_sequences_are_separate::constrain,
    of_cache_sequences_are_separate::plan,
    judge_edited_story};

}  // namespace qkvet::properties
