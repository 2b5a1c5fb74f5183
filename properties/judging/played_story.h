// SPDX-License-Identifier: Apache-2.0
// The story of a case, command by command, and the tokens of its sequences.
#ifndef QKVET_PROPERTIES_JUDGING_PLAYED_STORY_H_
#define QKVET_PROPERTIES_JUDGING_PLAYED_STORY_H_

#include <vector>

#include "core/base/floors.h"
#include "core/case/case.h"

namespace qkvet::properties {

// Plays the story on the cache of the case, with its capacity as a hard limit.
std::vector<Snapshot> snapshots_of(const Case& value, const Story& story);
inline std::vector<Snapshot> snapshots_of(const Case& value) {
  return snapshots_of(value, value.story);
}

// The sequence that a command is about; a fork is about the copy.
int64_t changed_sequence(const StoryCommand& command);
// The sequence that gave this one its tokens in a fork or a reorder; the
// sequence itself after all other commands.
int64_t parent_sequence(const StoryCommand& command, int64_t sequence);

class TokensHeld {
 public:
  // A legal command.
  void play(const Snapshot& snapshot);

  // Sequences that were named so far; all others are empty.
  int64_t sequences() const { return std::ssize(held_); }
  const std::vector<Token>& of(int64_t sequence) const;

 private:
  std::vector<std::vector<Token>> held_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_PLAYED_STORY_H_
