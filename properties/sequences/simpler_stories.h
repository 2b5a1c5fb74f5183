// SPDX-License-Identifier: Apache-2.0
// The one shrinker of operation sequences: the steps from a story to simpler
// ones. Cases take them through simpler_cases(), recordings in shrink_log().
#ifndef QKVET_PROPERTIES_SEQUENCES_SIMPLER_STORIES_H_
#define QKVET_PROPERTIES_SEQUENCES_SIMPLER_STORIES_H_

#include <functional>

#include "properties/sequences/played_story.h"

namespace qkvet::properties {

// A story on a cache of this many sequences.
struct SimplerStory {
  Story story;
  int64_t sequences = 1;
  // Another verb, perhaps for as many tokens: simpler only if the rest of the
  // case is smaller for it.
  bool only_if_smaller = false;
};
using TakesStory = std::function<bool(SimplerStory)>;

// The least number, half and one less, where they are less than now.
std::vector<int64_t> smaller_numbers(int64_t now, int64_t least);

// As many as it needs for the sequences that its commands read or change.
int64_t sequences_needed(const Story& story);

// Calls `takes`, until it returns true, with the story without sequences that
// it does not use, without single commands, with fewer tokens, on lower
// sequences. Returns whether it did.
bool try_simpler_stories(const Story& story, int64_t sequences,
                         const TakesStory& takes);

// The commands that gave the last one its tokens, and it.
Story history_of_last(const Story& story);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_SIMPLER_STORIES_H_
