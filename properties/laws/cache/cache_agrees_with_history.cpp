// SPDX-License-Identifier: Apache-2.0
// The general law about caches: after any story, an answer is attention over
// the tokens that the sequence holds now, recomputed from its history.
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_agrees_with_history {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  StoryEdits edits;
  // One case in four leaves it out.
  edits.want_lse = wants_lse(kernel) && value.seed % 4 != 2;
  add_story(value, value.story, kernel, edits, plan);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_story(input, judgement);
  return judgement;
}

}  // namespace of_cache_agrees_with_history

extern constinit const Law cache_agrees_with_history{
    "cache_agrees_with_history",
    "A cache answers with attention over the tokens of its sequence, "
    "recomputed from the whole history.",
    "attend(s, q) = attention(q, history(s)), causal from the bottom right",
    "a story of legal commands",
    "The history determines keys, values and positions.",
    "The bound of attention over the history: a cache stores what it is given.",
    "(c) it reaches every sequence of commands",
    130,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_agrees_with_history::plan,
    of_cache_agrees_with_history::judge};

}  // namespace qkvet::properties
