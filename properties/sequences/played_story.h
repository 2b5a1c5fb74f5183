// SPDX-License-Identifier: Apache-2.0
// The story of a case, command by command, and the tokens of its sequences.
#ifndef QKVET_PROPERTIES_SEQUENCES_PLAYED_STORY_H_
#define QKVET_PROPERTIES_SEQUENCES_PLAYED_STORY_H_

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
  // A legal command. One that only attends changes nothing.
  void play(const Snapshot& snapshot);

  // Sequences that were named so far; all others are empty.
  int64_t sequences() const { return std::ssize(now_); }
  const std::vector<Token>& of(int64_t sequence) const {
    return in(now_, sequence);
  }
  // Those before the last command that changed the sequence.
  const std::vector<Token>& before(int64_t sequence) const {
    return in(before_, sequence);
  }
  bool holds(int64_t sequence, const Token& token) const;
  // Whether two sequences hold the same token, or held it before the last
  // command to the first of them.
  bool are_sharing(int64_t one, int64_t other) const;

 private:
  using Held = std::vector<std::vector<Token>>;
  const std::vector<Token>& in(const Held& held, int64_t sequence) const;

  Held now_, before_;
};

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_SEQUENCES_PLAYED_STORY_H_
