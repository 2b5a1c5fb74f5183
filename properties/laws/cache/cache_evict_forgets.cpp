// SPDX-License-Identifier: Apache-2.0
// Before every token that a story appends, it is given some of NaN, which are
// evicted before the next query: the story's own tokens close up. An answer
// that reads the evicted ones, even with weight 0, is NaN; one that has lost
// the wrong tokens is another number. Without a rotation, ALiBi, a mask and a
// bias, because the positions differ.
#include <algorithm>

#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_evict_forgets {

// Tokens that are evicted at a time.
constexpr int64_t kDropped = 3;

// With capacity for those tokens.
Case constrain(Case value) {
  value = constrain_to_legal(std::move(value));
  int64_t longest = 0;
  for (const Snapshot& snapshot : snapshots_of(value))
    for (const int64_t length : snapshot.lengths)
      longest = std::max(longest, length);
  value.capacity = std::max(value.capacity, longest + kDropped);
  constrain_extents_to_story(value);
  return value;
}

// The command, and the appends that are evicted again. The story without the
// insertions must be the same: a step is split in both.
void add_command(const StoryCommand& command, int64_t length,
                 EditedStory& story) {
  if (!appends(command.verb)) return story.keep(command);
  const int64_t s = command.sequence;
  story.insert({StoryVerb::kAppend, s, kDropped});
  story.keep({StoryVerb::kAppend, s, command.count});
  story.insert({StoryVerb::kEvict, s, kDropped, {}, length});
  if (attends(command.verb)) story.keep({StoryVerb::kAttend, s, command.count});
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  if (!kernel.has_evict) {
    Plan plan;
    plan.unsupported = "evict is not offered";
    return plan;
  }
  EditedStory story;
  std::vector<int64_t> lengths(static_cast<size_t>(value.shape.B), 0);
  for (const Snapshot& snapshot : snapshots_of(value)) {
    const auto s = static_cast<size_t>(snapshot.command.sequence);
    add_command(snapshot.command, lengths[s], story);
    lengths = snapshot.lengths;
  }
  return story.plan(value, kernel);
}

}  // namespace of_cache_evict_forgets

extern constinit const Law cache_evict_forgets{
    "cache_evict_forgets",
    "Evicted tokens are gone, and no others: the rest closes up and never sees "
    "them.",
    "append (NaN); append(x); evict (NaN); story = append(x); story",
    "a story of legal commands without a rotation, ALiBi, masks and biases; "
    "the cache offers evict()",
    "Without positions, attention depends on the tokens that are left and "
    "their order.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches tokens in the middle of a sequence that finite values can "
    "hide",
    50,
    Domain{.subject = Subject::kCache,
           .allows = kOptionStored | QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK},
    of_cache_evict_forgets::constrain,
    of_cache_evict_forgets::plan,
    judge_edited_story};

}  // namespace qkvet::properties
