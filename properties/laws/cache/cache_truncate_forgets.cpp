// SPDX-License-Identifier: Apache-2.0
// Before every command its sequence is given a few tokens of NaN, which are
// truncated again: rejected speculation. An answer that reads them, even with
// weight 0, is NaN; and later tokens must replace them.
#include <algorithm>

#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_truncate_forgets {

// As many tokens as a draft model proposes at a time.
constexpr int64_t kDraft = 3;

// Whether the rest of the story, from command `next` on, is legal after
// `so_far`.
bool goes_on(const Case& value, const KernelInfo& kernel,
             const EditedStory& so_far, size_t next) {
  if (value.cache.window == 0) return true;
  Story all = so_far.story();
  all.insert(all.end(), value.story.begin() + static_cast<ptrdiff_t>(next),
             value.story.end());
  const auto snapshots = play_story(all, story_rules(value, kernel));
  return std::all_of(
      snapshots.begin(), snapshots.end(),
      [](const Snapshot& snapshot) { return snapshot.illegal.empty(); });
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  if (!kernel.has_truncate) {
    Plan plan;
    plan.unsupported = "truncate is not offered";
    return plan;
  }
  EditedStory story;
  std::vector<int64_t> lengths(static_cast<size_t>(value.shape.B), 0);
  const std::vector<Snapshot> snapshots = snapshots_of(value);
  for (size_t i = 0; i < snapshots.size(); ++i) {
    const Snapshot& snapshot = snapshots[i];
    const int64_t s = snapshot.command.sequence;
    const int64_t length = lengths[static_cast<size_t>(s)];
    int64_t draft = std::min(kDraft, value.capacity - length);
    // A window can take back this many tokens, counted from the greatest
    // length.
    if (value.cache.window > 0) draft = std::min(draft, value.cache.rollback);
    for (; draft > 0; --draft) {
      EditedStory longer = story;
      longer.insert({StoryVerb::kAppend, s, draft});
      longer.insert({StoryVerb::kTruncate, s, length});
      if (!goes_on(value, kernel, longer, i)) continue;
      story = std::move(longer);
      break;
    }
    story.keep(snapshot.command);
    lengths = snapshot.lengths;
  }
  return story.plan(value, kernel);
}

}  // namespace of_cache_truncate_forgets

extern constinit const Law cache_truncate_forgets{
    "cache_truncate_forgets",
    "Truncated tokens are gone: what follows takes their place and never sees "
    "them.",
    "append (NaN); truncate; story = story",
    "a story of legal commands; the cache offers truncate()",
    "Tokens that are gone are no part of the history.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches rejected tokens that finite values can hide",
    40,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_truncate_forgets::plan,
    judge_edited_story};

}  // namespace qkvet::properties
