// SPDX-License-Identifier: Apache-2.0
#include "properties/logs/log_player.h"

#include <algorithm>
#include <numeric>

namespace qkvet::properties {

LogPlayer::LogPlayer(const StoryRules& rules)
    : rules_(rules), places_(static_cast<size_t>(rules.sequences)) {}

void LogPlayer::reorder(const LogCommand& command, LogSnapshot& played) {
  played.parents.resize(places_.size());
  std::iota(played.parents.begin(), played.parents.end(), 0);
  const std::vector<Place> before = places_;
  for (const auto& [to, from] : command.moves) {
    const auto parent = static_cast<size_t>(taken_.take(from));
    const auto child = static_cast<size_t>(taken_.take(to));
    played.parents[child] = static_cast<int64_t>(parent);
    places_[child] = before[parent];
  }
}

void LogPlayer::carry_out(const LogSnapshot& played) {
  const Snapshot& snapshot = played.snapshot;
  const StoryCommand& command = snapshot.command;
  Place& own = place(command.sequence);
  if (command.verb == StoryVerb::kFork) {
    const Place copy = own;
    place(command.count) = copy;
    return;
  }
  take_away(command, own.tokens);
  take_away(command, own.positions);
  for (int64_t i = 0; i < snapshot.new_tokens; ++i) {
    own.tokens.push_back({played.id, snapshot.first_new + i});
    own.positions.push_back(next_position(own.positions));
  }
  const auto length = static_cast<int64_t>(own.tokens.size());
  own.most = length == 0 ? 0 : std::max(own.most, length);
}

LogSnapshot LogPlayer::play(const LogCommand& command) {
  LogSnapshot played;
  Snapshot& snapshot = played.snapshot;
  // Places in the order in which the parser took them.
  for_each_id(command, [&](int64_t id) { taken_.take(id); });
  played.id = command.id;
  snapshot.command = {command.verb, taken_.take(command.id), command.count,
                      /*parents=*/{}, command.first};
  const bool copies = command.verb == StoryVerb::kFork;
  if (copies) snapshot.command.count = taken_.take(command.count);
  const auto id = static_cast<size_t>(command.id);
  if (id >= tags_.size()) tags_.resize(id + 1);
  const Place& own = place(snapshot.command.sequence);
  snapshot.illegal = refusal_reason(
      snapshot.command, {static_cast<int64_t>(own.tokens.size()), own.most},
      rules_);
  snapshot.new_tokens = appends(command.verb) ? command.count : 0;
  snapshot.queries = attends(command.verb) ? command.count : 0;
  snapshot.first_new = tags_[id].token;
  snapshot.first_query = tags_[id].query;
  tags_[id].token += snapshot.new_tokens;
  tags_[id].query += snapshot.queries;
  if (command.verb == StoryVerb::kReorder)
    reorder(command, played);
  else if (snapshot.illegal.empty())
    carry_out(played);
  const Place& shown =
      place(copies ? snapshot.command.count : snapshot.command.sequence);
  snapshot.history = shown.tokens;
  snapshot.positions = shown.positions;
  snapshot.lengths.reserve(places_.size());
  for (const Place& one : places_)
    snapshot.lengths.push_back(static_cast<int64_t>(one.tokens.size()));
  if (command.verb == StoryVerb::kReset) taken_.leave(command.id);
  return played;
}

}  // namespace qkvet::properties
