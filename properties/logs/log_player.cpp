// SPDX-License-Identifier: Apache-2.0
#include "properties/logs/log_player.h"

#include <numeric>

namespace qkvet::properties {

LogPlayer::LogPlayer(const StoryRules& rules) : rules_(rules), places_(rules) {}

LogSnapshot LogPlayer::play(const LogCommand& command) {
  LogSnapshot played;
  // Places in the order in which the parser took them.
  for_each_id(command, [&](int64_t id) { taken_.take(id); });
  played.id = command.id;
  StoryCommand one = {command.verb, taken_.take(command.id), command.count,
                      /*parents=*/{}, command.first};
  if (command.verb == StoryVerb::kFork) one.count = taken_.take(command.count);
  if (command.verb == StoryVerb::kReorder) {
    played.parents.resize(static_cast<size_t>(rules_.sequences));
    std::iota(played.parents.begin(), played.parents.end(), 0);
    for (const auto& [to, from] : command.moves)
      played.parents[static_cast<size_t>(taken_.take(to))] = taken_.take(from);
  }
  const auto id = static_cast<size_t>(command.id);
  if (id >= tags_.size()) tags_.resize(id + 1);
  played.snapshot = places_.play(one, played.id, tags_[id].token,
                                 tags_[id].query, played.parents);
  tags_[id].token += played.snapshot.new_tokens;
  tags_[id].query += played.snapshot.queries;
  if (command.verb == StoryVerb::kReset) taken_.leave(command.id);
  return played;
}

}  // namespace qkvet::properties
