// SPDX-License-Identifier: Apache-2.0
// A recorded story: what a serving system did to its KV cache, request by
// request; ids and counts, no tensors. Lines of UTF-8 text:
//
//   qkvet-story 1
//   cache f32,H2,Hkv1,d4,cap64
//   step 7f3a-22 5           # a prompt of 5 tokens, and 5 queries
//   step 7f3a-22 1
//   fork 7f3a-22 7f3a-23     # the second becomes what the first is
//   truncate 7f3a-22 5       # its first 5 tokens stay
//   evict 7f3a-22 1 2        # 2 of them leave, from number 1 on
//   reorder A=B B=B C=A      # A becomes what B was, ..., all at once
//   reset 7f3a-22            # empty; also the end of a request
//
// `cache` has the keys of a Case (case.h) but for B and story=. append and
// attend are a step with only tokens, only queries. An id is any word without
// "=" that does not begin with "#", which begins a comment.
//
// A Case spells a story in one line, so its length and its sequences are few.
// This one has any length; a sequence is an id, which takes a place in the
// cache from its first command until it is reset.
#ifndef QKVET_CORE_STORY_STORY_LOG_H_
#define QKVET_CORE_STORY_STORY_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/case/case.h"

namespace qkvet {

inline constexpr size_t kMostLogCommands = 10'000'000;

struct LogCommand {
  StoryVerb verb = StoryVerb::kStep;
  int64_t id = 0;     // number of the id, by first appearance; reorder: of
                      // the first one
  int64_t count = 0;  // tokens, queries; fork: the id of the copy
  // For reorder: pairs of an id and the id that it gets the sequence of.
  std::vector<std::pair<int64_t, int64_t>> moves{};
  int64_t first = 0;   // evict: the first token that leaves
  int64_t number = 0;  // in the recording, from 1
  int64_t line = 0;

  friend bool operator==(const LogCommand&, const LogCommand&) = default;
};
using LogCommands = std::vector<LogCommand>;

struct StoryLog {
  // Dtypes, widths, capacity, form, rotation and recipes. Its B is the number
  // of sequences that the commands need, and its story a placeholder.
  Case geometry;
  std::vector<std::string> ids;
  LogCommands commands;
};

// On failure *error is one line that begins with "NAME:LINE: ".
std::optional<StoryLog> parse_story_log(std::string_view text,
                                        const std::string& name,
                                        std::string* error);

// "step 7f3a-22 5", and a whole recording that can be parsed again.
std::string log_command_text(const StoryLog& log, const LogCommand& command);
std::string story_log_text(const StoryLog& log, const LogCommands& commands);

// The places of the sequences of a recording in its cache: an id takes the
// lowest free place at its first command, and leaves it when it is reset.
class LogPlaces {
 public:
  int64_t take(int64_t id);  // the place of the id, its own or a new one
  void leave(int64_t id);
  void follow(const LogCommand& command);
  int64_t most() const { return static_cast<int64_t>(taken_.size()); }

 private:
  std::vector<int64_t> place_;  // of an id; -1: none
  std::vector<bool> taken_;     // as many as were ever taken at once
};

// Sequences that a cache needs for these commands.
int64_t places_needed(const LogCommands& commands);

// The ids that a command names.
template <class Use>
void for_each_id(const LogCommand& command, Use use) {
  if (command.verb == StoryVerb::kReorder) {
    for (const auto& [id, from] : command.moves) use(id), use(from);
    return;
  }
  use(command.id);
  if (command.verb == StoryVerb::kFork) use(command.count);
}

// StoryCommand::parents has one character for each place: 'a' plus the place,
// modulo 256, which is kMostCacheSequences.
inline char parent_letter(int64_t place) {
  return static_cast<char>('a' + place);
}
inline int64_t parent_place(char letter) {
  return static_cast<uint8_t>(letter - 'a');
}

// One command as it is played. Its sequences are places in the cache; a token
// is named by the id that it was given to.
struct LogSnapshot {
  Snapshot snapshot;
  int64_t id = 0;  // the id that the command's tags belong to
};

// Plays a recording as play_story() plays a story, one command at a time.
class LogPlayer {
 public:
  // rules.sequences: places_needed() at least.
  explicit LogPlayer(const StoryRules& rules)
      : sequences_(rules.sequences), held_(rules) {}

  LogSnapshot play(const LogCommand& command);

 private:
  struct Tags {
    int64_t token = 0, query = 0;  // the next ones
  };

  int64_t sequences_;
  LogPlaces places_;
  HeldSequences held_;
  std::vector<Tags> tags_;  // of an id
};

}  // namespace qkvet

#endif  // QKVET_CORE_STORY_STORY_LOG_H_
