// SPDX-License-Identifier: Apache-2.0
#include "core/story.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "core/call.h"

namespace qkvet {
namespace {

// In the order of StoryVerb.
constexpr std::array<std::string_view, 5> kVerbs = {"append", "attend", "step",
                                                    "truncate", "reset"};

bool appends(StoryVerb verb) {
  return verb == StoryVerb::kAppend || verb == StoryVerb::kStep;
}
bool attends(StoryVerb verb) {
  return verb == StoryVerb::kAttend || verb == StoryVerb::kStep;
}

std::optional<StoryVerb> verb_of(std::string_view name) {
  const auto* found = std::find(kVerbs.begin(), kVerbs.end(), name);
  if (found == kVerbs.end()) return std::nullopt;
  return static_cast<StoryVerb>(found - kVerbs.begin());
}

std::optional<StoryCommand> parse_command(std::string_view text,
                                          std::string* error) {
  *error = "command \"" + std::string(text) +
           "\": write append.a.N, attend.a.N, step.a.N, truncate.a.N or "
           "reset.a, with a sequence a .. h and N up to " +
           std::to_string(kMostStoryTokens);
  const size_t dot = std::min(text.find('.'), text.size());
  const auto verb = verb_of(text.substr(0, dot));
  const size_t at = dot + 1;
  if (!verb || at >= text.size()) return std::nullopt;
  StoryCommand command;
  command.verb = *verb;
  command.sequence = text[at] - 'a';
  if (command.sequence < 0 || command.sequence >= kMostSequences)
    return std::nullopt;
  std::string_view rest = text.substr(at + 1);
  if (*verb == StoryVerb::kReset) {
    if (rest.empty()) return command;
    return std::nullopt;
  }
  if (rest.size() < 2 || rest[0] != '.') return std::nullopt;
  rest.remove_prefix(1);
  const char* end = rest.data() + rest.size();
  const auto [stop, code] = std::from_chars(rest.data(), end, command.count);
  // Only truncate means something for 0 tokens.
  const int64_t least = *verb == StoryVerb::kTruncate ? 0 : 1;
  if (code != std::errc() || stop != end || command.count < least ||
      command.count > kMostStoryTokens)
    return std::nullopt;
  return command;
}

// What one sequence has and has used.
struct Sequence {
  std::vector<int64_t> tokens;
  int64_t next_token = 0;
  int64_t next_query = 0;
};

std::string append_problem(const Sequence& sequence, int64_t count,
                           const StoryRules& rules) {
  const auto length = static_cast<int64_t>(sequence.tokens.size());
  if (rules.grows || length + count <= rules.capacity) return "";
  return std::to_string(length) + " + " + std::to_string(count) +
         " tokens are more than the capacity, " +
         std::to_string(rules.capacity);
}

std::string problem_of(const StoryCommand& command, const Sequence& sequence,
                       const StoryRules& rules) {
  const auto length = static_cast<int64_t>(sequence.tokens.size());
  switch (command.verb) {
    case StoryVerb::kAppend:
    case StoryVerb::kStep:
      return append_problem(sequence, command.count, rules);
    case StoryVerb::kAttend:
      if (command.count <= length) return "";
      return std::to_string(command.count) + " queries over " +
             std::to_string(length) + " tokens";
    case StoryVerb::kTruncate:
      if (command.count <= length) return "";
      return "only " + std::to_string(length) + " tokens are there to keep " +
             std::to_string(command.count) + " of";
    case StoryVerb::kReset:
      return "";
  }
  return "";
}

void carry_out(const Moment& moment, Sequence& sequence) {
  const StoryCommand& command = moment.command;
  if (command.verb == StoryVerb::kReset) sequence.tokens.clear();
  if (command.verb == StoryVerb::kTruncate)
    sequence.tokens.resize(static_cast<size_t>(command.count));
  for (int64_t i = 0; i < moment.new_tokens; ++i)
    sequence.tokens.push_back(moment.first_new + i);
}

template <class Uses>
int64_t most_used(const Story& story, Uses uses) {
  std::array<int64_t, kMostSequences> used{};
  for (const StoryCommand& command : story)
    if (uses(command.verb))
      used[static_cast<size_t>(command.sequence)] += command.count;
  return std::max<int64_t>(1, *std::max_element(used.begin(), used.end()));
}

}  // namespace

std::string command_text(const StoryCommand& command) {
  std::string text(kVerbs[static_cast<size_t>(command.verb)]);
  text += '.';
  text += static_cast<char>('a' + command.sequence);
  if (command.verb != StoryVerb::kReset)
    text += "." + std::to_string(command.count);
  return text;
}

std::string story_text(const Story& story) {
  std::string text;
  for (const StoryCommand& command : story) {
    if (!text.empty()) text += '+';
    text += command_text(command);
  }
  return text;
}

std::optional<Story> parse_story(std::string_view text, std::string* error) {
  Story story;
  for (;;) {
    const size_t plus = std::min(text.find('+'), text.size());
    const auto command = parse_command(text.substr(0, plus), error);
    if (!command) return std::nullopt;
    story.push_back(*command);
    if (story.size() > kMostCommands) {
      *error =
          "a story has at most " + std::to_string(kMostCommands) + " commands";
      return std::nullopt;
    }
    if (plus == text.size()) break;
    text.remove_prefix(plus + 1);
  }
  error->clear();
  return story;
}

std::vector<Moment> play_story(const Story& story, const StoryRules& rules,
                               const std::vector<bool>& inserted) {
  std::vector<Moment> moments;
  std::array<Sequence, kMostSequences> sequences;
  int64_t without_data = 0;  // tags given below 0
  for (const StoryCommand& command : story) {
    Sequence& sequence = sequences[static_cast<size_t>(command.sequence)];
    Moment moment;
    moment.command = command;
    if (command.sequence >= rules.sequences)
      moment.illegal =
          "there are only " + std::to_string(rules.sequences) + " sequences";
    else
      moment.illegal = problem_of(command, sequence, rules);
    moment.new_tokens = appends(command.verb) ? command.count : 0;
    moment.queries = attends(command.verb) ? command.count : 0;
    if (moments.size() < inserted.size() && inserted[moments.size()]) {
      without_data += moment.new_tokens;
      moment.first_new = -without_data;
    } else {
      moment.first_new = sequence.next_token;
      moment.first_query = sequence.next_query;
      sequence.next_token += moment.new_tokens;
      sequence.next_query += moment.queries;
    }
    if (moment.illegal.empty()) carry_out(moment, sequence);
    moment.history = sequence.tokens;
    for (int64_t s = 0; s < rules.sequences; ++s)
      moment.lengths.push_back(static_cast<int64_t>(
          sequences[static_cast<size_t>(s)].tokens.size()));
    moments.push_back(std::move(moment));
  }
  return moments;
}

int64_t story_tokens(const Story& story) { return most_used(story, appends); }
int64_t story_queries(const Story& story) { return most_used(story, attends); }

}  // namespace qkvet
