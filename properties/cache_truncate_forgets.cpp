// SPDX-License-Identifier: Apache-2.0
// Before every command the sequence at work is given a few tokens of NaN, which
// are truncated again: rejected speculation. An answer that reads them, even
// with weight 0, is NaN; and what is appended later must take their place.
#include <algorithm>

#include "properties/law.h"
#include "properties/story_calls.h"

namespace qkvet {
namespace {

// As many tokens as a draft model proposes at a time.
constexpr int64_t kDraft = 3;

Plan plan(const Case& value, const KernelInfo& kernel) {
  if (!kernel.has_truncate) {
    Plan plan;
    plan.not_applicable = "the cache offers no truncate()";
    return plan;
  }
  EditedStory story;
  std::vector<int64_t> lengths(static_cast<size_t>(value.shape.B), 0);
  for (const Moment& moment : play_story(
           value.story, {value.shape.B, value.capacity, false, value.cache})) {
    const int64_t s = moment.command.sequence;
    const int64_t length = lengths[static_cast<size_t>(s)];
    const int64_t draft = std::min(kDraft, value.capacity - length);
    if (draft > 0) {
      story.insert({StoryVerb::kAppend, s, draft});
      story.insert({StoryVerb::kTruncate, s, length});
    }
    story.keep(moment.command);
    lengths = moment.lengths;
  }
  return story.plan(value, kernel);
}

}  // namespace

extern constinit const Law cache_truncate_forgets{
    "cache_truncate_forgets",
    "Truncated tokens are gone: what follows takes their place and never sees "
    "them.",
    "append (NaN); truncate; story = story",
    "a story of legal commands; the cache offers truncate()",
    "Tokens that are gone are no part of the history.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches rejected tokens that finite values can hide",
    Aim{.subject = Subject::kCache, .admits = kAdmitRope},
    fit_to_legal,
    plan,
    judge_edited_story};

}  // namespace qkvet
