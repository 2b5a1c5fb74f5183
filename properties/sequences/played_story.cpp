// SPDX-License-Identifier: Apache-2.0
#include "properties/sequences/played_story.h"

#include <algorithm>
#include <utility>

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
  return s < command.parents.size() ? parent_place(command.parents[s])
                                    : sequence;
}

const std::vector<Token>& TokensHeld::in(const Held& held,
                                         int64_t sequence) const {
  static const std::vector<Token> nothing;
  return sequence < sequences() ? held[static_cast<size_t>(sequence)] : nothing;
}

void TokensHeld::play(const Snapshot& snapshot) {
  const StoryCommand& command = snapshot.command;
  if (command.verb == StoryVerb::kAttend) return;
  const auto changed = static_cast<size_t>(changed_sequence(command));
  const size_t named =
      std::max({static_cast<size_t>(command.sequence) + 1, changed + 1,
                command.parents.size(), now_.size()});
  now_.resize(named);
  before_.resize(named);
  if (command.verb != StoryVerb::kReorder) {
    before_[changed] = std::exchange(now_[changed], snapshot.history);
    return;
  }
  before_ = now_;
  for (size_t s = 0; s < command.parents.size(); ++s)
    now_[s] = before(parent_sequence(command, static_cast<int64_t>(s)));
}

bool TokensHeld::holds(int64_t sequence, const Token& token) const {
  return std::ranges::count(of(sequence), token) > 0;
}

bool TokensHeld::are_sharing(int64_t one, int64_t other) const {
  return std::ranges::any_of(of(other), [&](const Token& token) {
    return holds(one, token) || std::ranges::count(before(one), token) > 0;
  });
}

}  // namespace qkvet::properties
