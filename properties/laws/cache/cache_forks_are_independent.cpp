// SPDX-License-Identifier: Apache-2.0
// Before every command its sequence is forked, and one of the two loses its
// first token and continues with NaN. In turn this is the copy, after the
// command, and the original before it, which then becomes the copy again. An
// answer that reads any of it, even with weight 0, is NaN: a page that both
// share was written, or a shared counter. If tokens have moved in such a page,
// it is another number.
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_forks_are_independent {

Plan plan(const Case& value, const KernelInfo& kernel) {
  if (!kernel.has_fork) {
    Plan plan;
    plan.unsupported = "fork is not offered";
    return plan;
  }
  EditedStory story;
  const int64_t copy = value.shape.B - 1;
  std::vector<int64_t> lengths(static_cast<size_t>(value.shape.B), 0);
  const auto snapshots = snapshots_of(value);
  for (size_t i = 0; i < snapshots.size(); ++i) {
    const int64_t s = snapshots[i].command.sequence;
    const bool room = lengths[static_cast<size_t>(s)] < value.capacity;
    const bool back = room && i % 2 == 0;
    const bool aside = room && i % 2 != 0;
    if (room) story.insert({StoryVerb::kFork, s, copy});
    const bool evicts = kernel.has_evict && value.cache.window == 0 &&
                        lengths[static_cast<size_t>(s)] > 1;
    if (back && evicts) story.insert({StoryVerb::kEvict, s, 1});
    if (back) story.insert({StoryVerb::kAppend, s, 1});
    if (back) story.insert({StoryVerb::kFork, copy, s});
    story.keep(snapshots[i].command);
    // At the place where the command wrote, if both still share that page.
    if (aside && evicts) story.insert({StoryVerb::kEvict, copy, 1});
    if (aside) story.insert({StoryVerb::kAppend, copy, 1});
    lengths = snapshots[i].lengths;
  }
  return story.plan(value, kernel);
}

}  // namespace of_cache_forks_are_independent

extern constinit const Law cache_forks_are_independent{
    "cache_forks_are_independent",
    "After a fork, what one branch appends or evicts never changes the other.",
    "fork(a, b); evict(b); append(b, NaN); story(a) = story(a), and the other "
    "way round",
    "a story of legal commands; the cache offers fork()",
    "A fork copies a history; later tokens are part of one of the two.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches shared pages that are written by both",
    70,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_idle_last,
    of_cache_forks_are_independent::plan,
    judge_edited_story};

}  // namespace qkvet::properties
