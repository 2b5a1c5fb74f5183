// SPDX-License-Identifier: Apache-2.0
#include "properties/judging/played_story.h"

#include <algorithm>

namespace qkvet::properties {

std::vector<Snapshot> snapshots_of(const Case& value, const Story& story) {
  return play_story(
      story, {value.shape.B, value.capacity, /*grows=*/false, value.cache});
}

int64_t changed_sequence(const StoryCommand& command) {
  return command.verb == StoryVerb::kFork ? command.count : command.sequence;
}

int64_t parent_sequence(const StoryCommand& command, int64_t sequence) {
  const auto s = static_cast<size_t>(sequence);
  if (command.verb == StoryVerb::kFork && sequence == command.count)
    return command.sequence;
  return s < command.parents.size() ? command.parents[s] - 'a' : sequence;
}

const std::vector<Token>& TokensHeld::of(int64_t sequence) const {
  static const std::vector<Token> nothing;
  return sequence < sequences() ? held_[static_cast<size_t>(sequence)]
                                : nothing;
}

void TokensHeld::play(const Snapshot& snapshot) {
  const StoryCommand& command = snapshot.command;
  const auto named =
      std::max({static_cast<size_t>(command.sequence) + 1,
                static_cast<size_t>(changed_sequence(command)) + 1,
                command.parents.size(), held_.size()});
  held_.resize(named);
  if (command.verb != StoryVerb::kReorder) {
    held_[static_cast<size_t>(changed_sequence(command))] = snapshot.history;
    return;
  }
  const TokensHeld before = *this;
  for (size_t s = 0; s < command.parents.size(); ++s)
    held_[s] = before.of(parent_sequence(command, static_cast<int64_t>(s)));
}

}  // namespace qkvet::properties
