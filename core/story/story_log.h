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
// This one has any length. An id takes the lowest free place in the cache at
// its first command and leaves it when it is reset: a recording is read as a
// story with the places as its sequences.
#ifndef QKVET_CORE_STORY_STORY_LOG_H_
#define QKVET_CORE_STORY_STORY_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/case/case.h"

namespace qkvet {

inline constexpr size_t kMostLogCommands = 10'000'000;

struct StoryLog {
  // Dtypes, widths, capacity, form, rotation and recipes. Its B is the number
  // of sequences that the commands need; its story only makes it a cache.
  Case geometry;
  Story story;
  int64_t ids = 0;

  // The line of each command, for messages.
  struct Line {
    int64_t number = 0;
    size_t begin = 0, size = 0;  // of the command in the text
  };
  std::vector<Line> lines;
  std::string text;

  std::string_view command_text(size_t command) const;
  std::string_view first_id(size_t command) const;
};

// On failure *error is one line that begins with "NAME:LINE: ".
std::optional<StoryLog> parse_story_log(std::string_view text,
                                        const std::string& name,
                                        std::string* error);

// "step a 5", and a whole recording that can be parsed again: the places are
// the ids a .. z, s26, ...
std::string log_command_text(const StoryCommand& command);
std::string story_log_text(const Case& geometry, const Story& story);

}  // namespace qkvet

#endif  // QKVET_CORE_STORY_STORY_LOG_H_
