// SPDX-License-Identifier: Apache-2.0
// Before every command all sequences move on by one place and back again, and
// those that the story does not use hold NaN. A reorder that moves only keys,
// only values, only a length, or that overwrites what it has yet to read, lets
// an answer see them.
#include "properties/story_calls.h"

namespace qkvet {
namespace {

// Every sequence becomes what the one `by` places further was.
StoryCommand moved_on(int64_t sequences, int64_t by) {
  StoryCommand command;
  command.verb = StoryVerb::kReorder;
  for (int64_t s = 0; s < sequences; ++s)
    command.parents += static_cast<char>('a' + (s + by) % sequences);
  return command;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  if (!kernel.has_reorder) {
    Plan plan;
    plan.unsupported = "reorder is not offered";
    return plan;
  }
  EditedStory story;
  const int64_t sequences = value.shape.B;
  story.insert({StoryVerb::kAppend, sequences - 1, 1});
  for (const StoryCommand& command : value.story) {
    story.insert(moved_on(sequences, 1));
    story.insert(moved_on(sequences, sequences - 1));
    story.keep(command);
  }
  return story.plan(value, kernel);
}

}  // namespace

extern constinit const Law cache_reorder_moves_histories{
    "cache_reorder_moves_histories",
    "A reorder gives every sequence the history of its parent: moved on and "
    "back again, nothing has changed.",
    "reorder(p); reorder(inverse of p); story = story",
    "a story of legal commands; the cache offers reorder()",
    "Two permutations that undo each other are the identity.",
    "Each side is within its own bound; NaN with any weight is NaN.",
    "(c) it reaches moves that overwrite what is still needed",
    Aim{.subject = Subject::kCache, .admits = kAdmitForms},
    fit_to_idle_last,
    plan,
    judge_edited_story};

}  // namespace qkvet
