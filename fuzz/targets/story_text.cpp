// SPDX-License-Identifier: Apache-2.0
// story_text: recordings of other people's servers. A recording is refused with
// a line that names the place, or is written out and read again as it was.
#include <algorithm>

#include "fuzz/targets/byte_checks.h"
#include "fuzz/targets/target.h"

namespace qkvet::fuzz {
std::string story_text_problem(std::string_view text, StoryParse parse,
                               std::string* said) {
  std::string error;
  const auto log = parse(text, "x", &error);
  *said = kind_of(error);
  if (!log)
    return error.starts_with("x:") && is_one_line(error)
               ? ""
               : "refused without a place: \"" + error + "\"";
  const std::string again = story_log_text(log->geometry, log->story);
  // Which command follows which; the lines between are ids and counts.
  for (size_t n = 0; n < std::min<size_t>(log->story.size(), 3); ++n)
    *said += verb_name(log->story[n].verb);
  const auto twice = parse(again, "y", &error);
  if (!twice) return "what is written out is refused: " + error;
  if (twice->story.size() != log->story.size())
    return "commands are lost when it is written out";
  return twice->story == log->story ? "" : "it is read in two ways";
}

namespace {

std::string check(std::span<const uint8_t> bytes, std::string* said) {
  return story_text_problem(as_text(bytes), parse_story_log, said);
}

}  // namespace

extern constinit const FuzzTarget fuzz_story_text = {
    .name = "story_text",
    .sentence =
        "A recording is refused with its line, or is written and read again.",
    .check = check};

}  // namespace qkvet::fuzz
