// SPDX-License-Identifier: Apache-2.0
// Before every command all sequences move on by one place and back again, and
// those that the story does not use hold NaN: a reorder that overwrites a
// sequence before reading it shows them to an answer. Then the command's
// sequence is copied to the idle one, is given NaN in its own place, and is
// copied back: a reorder that moves only keys, only values or only a length, or
// in the other direction, leaves the NaN there.
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_reorder_moves_histories {

// Every sequence becomes a copy of the one `by` places further.
StoryCommand moved_on(int64_t sequences, int64_t by) {
  StoryCommand command;
  command.verb = StoryVerb::kReorder;
  for (int64_t s = 0; s < sequences; ++s)
    command.parents += static_cast<char>('a' + (s + by) % sequences);
  return command;
}

// Sequence `to` becomes a copy of `from`, all others stay.
StoryCommand copied(int64_t sequences, int64_t from, int64_t to) {
  StoryCommand command = moved_on(sequences, 0);
  command.parents[static_cast<size_t>(to)] = static_cast<char>('a' + from);
  return command;
}

// For a sequence of this many tokens; the idle one holds NaN again afterwards.
void add_detour(int64_t sequences, int64_t s, int64_t tokens,
                EditedStory& story) {
  const int64_t idle = sequences - 1;
  story.insert(copied(sequences, s, idle));
  story.insert({StoryVerb::kReset, s, 0});
  story.insert({StoryVerb::kAppend, s, tokens});
  story.insert(copied(sequences, idle, s));
  story.insert({StoryVerb::kReset, idle, 0});
  story.insert({StoryVerb::kAppend, idle, 1});
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  if (!kernel.has_reorder) {
    Plan plan;
    plan.unsupported = "reorder is not offered";
    return plan;
  }
  EditedStory story;
  const int64_t sequences = value.shape.B;
  std::vector<int64_t> lengths(static_cast<size_t>(sequences), 0);
  story.insert({StoryVerb::kAppend, sequences - 1, 1});
  for (const Snapshot& snapshot : snapshots_of(value)) {
    const int64_t s = snapshot.command.sequence;
    const int64_t tokens = lengths[static_cast<size_t>(s)];
    story.insert(moved_on(sequences, 1));
    story.insert(moved_on(sequences, sequences - 1));
    if (tokens > 0) add_detour(sequences, s, tokens, story);
    story.keep(snapshot.command);
    lengths = snapshot.lengths;
  }
  return story.plan(value, kernel);
}

}  // namespace of_cache_reorder_moves_histories

extern constinit const Law cache_reorder_moves_histories{
    "cache_reorder_moves_histories",
    "A reorder gives every sequence the history of its parent: moved on and "
    "back again, nothing has changed.",
    "reorder(p); reorder(inverse of p); story = story, and by way of a copy",
    "a story of legal commands; the cache offers reorder()",
    "Two permutations that undo each other are the identity, and so is a copy "
    "that is copied back.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches moves that overwrite what is still needed",
    80,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_idle_last,
    of_cache_reorder_moves_histories::plan,
    judge_edited_story};

}  // namespace qkvet::properties
