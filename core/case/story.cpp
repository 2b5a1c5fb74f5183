// SPDX-License-Identifier: Apache-2.0
#include "core/case/story.h"

#include <algorithm>
#include <array>

#include "core/call/call.h"
#include "core/case/case_text.h"

namespace qkvet {
namespace {

// In the order of StoryVerb.
constexpr std::array<std::string_view, 8> kVerbs = {
    "append", "attend", "step", "truncate",
    "evict",  "reset",  "fork", "reorder"};

// The number of a sequence by its letter; nothing for any other text.
std::optional<int64_t> sequence_of(std::string_view letter) {
  if (letter.size() != 1 || letter[0] < 'a' ||
      letter[0] >= 'a' + kMostSequences)
    return std::nullopt;
  return letter[0] - 'a';
}

bool read_number(std::string_view word, int64_t least, int64_t& tokens) {
  tokens = number<int64_t>(word).value_or(-1);
  return least <= tokens && tokens <= kMostStoryTokens;
}

// What follows "verb.": false if the verb has no such words.
bool read_words(std::string_view words, StoryCommand& command) {
  if (command.verb == StoryVerb::kReorder) {
    command.parents = words;
    return !words.empty() &&
           static_cast<int64_t>(words.size()) <= kMostSequences &&
           std::all_of(words.begin(), words.end(), [](const char& parent) {
             return sequence_of({&parent, 1}).has_value();
           });
  }
  const auto sequence = sequence_of(words.substr(0, 1));
  if (!sequence) return false;
  command.sequence = *sequence;
  if (command.verb == StoryVerb::kReset) return words.size() == 1;
  if (words.size() < 3 || words[1] != '.') return false;
  words.remove_prefix(2);
  if (command.verb == StoryVerb::kFork) {
    const auto copy = sequence_of(words);
    command.count = copy.value_or(0);
    return copy.has_value();
  }
  if (command.verb == StoryVerb::kEvict) {
    const size_t dot = std::min(words.find('.'), words.size());
    if (!read_number(words.substr(0, dot), 0, command.first)) return false;
    words.remove_prefix(std::min(dot + 1, words.size()));
  }
  return read_number(words, least_count(command.verb), command.count);
}

std::optional<StoryCommand> parse_command(std::string_view text,
                                          std::string* error) {
  const size_t dot = std::min(text.find('.'), text.size());
  const auto verb = parse_verb(text.substr(0, dot));
  StoryCommand command;
  command.verb = verb.value_or(StoryVerb::kStep);
  if (verb && dot < text.size() && read_words(text.substr(dot + 1), command))
    return command;
  *error =
      "command \"" + std::string(text) +
      "\": write append.a.N, attend.a.N, step.a.N, truncate.a.N, "
      "evict.a.F.N, reset.a, fork.a.b or reorder.ba, with sequences a .. h "
      "and numbers up to " +
      std::to_string(kMostStoryTokens);
  return std::nullopt;
}

// What one sequence has and has used.
struct Sequence {
  std::vector<Token> tokens;
  std::vector<int64_t> positions;  // of the tokens
  int64_t most = 0;  // tokens that were there at a time since it was empty
  int64_t next_token = 0;
  int64_t next_query = 0;

  int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  Held held() const { return {length(), most}; }
};
using Sequences = std::array<Sequence, kMostSequences>;

std::string append_problem(const Held& held, int64_t count,
                           const StoryRules& rules) {
  if (rules.grows || held.tokens + count <= rules.capacity) return "";
  return std::to_string(held.tokens) + " + " + std::to_string(count) +
         " tokens are more than the capacity, " +
         std::to_string(rules.capacity);
}

std::string attend_problem(const Held& held, int64_t count,
                           const CacheForm& form) {
  if (count > held.tokens)
    return std::to_string(count) + " queries over " +
           std::to_string(held.tokens) + " tokens";
  const int64_t first = held.tokens - count;
  const int64_t behind = held.most - 1 - first;
  if (form.window == 0 || behind <= form.rollback) return "";
  return "a query stands " + std::to_string(behind) +
         " tokens behind the furthest one, the window can go back " +
         std::to_string(form.rollback);
}

std::string truncate_problem(const Held& held, int64_t count,
                             const CacheForm& form) {
  if (count < 0) return std::to_string(count) + " tokens are fewer than none";
  if (count > held.tokens)
    return "only " + std::to_string(held.tokens) +
           " tokens are there to keep " + std::to_string(count) + " of";
  const int64_t back = held.most - count;
  if (form.window == 0 || back <= form.rollback) return "";
  return std::to_string(back) +
         " tokens are taken back, the window can go back " +
         std::to_string(form.rollback);
}

std::string evict_problem(const Held& held, const StoryCommand& command,
                          const CacheForm& form) {
  const int64_t end = command.first + command.count;
  if (command.first < 0)
    return "token " + std::to_string(command.first) + " is before the first";
  if (end > held.tokens)
    return "only " + std::to_string(held.tokens) +
           " tokens are there to take " + std::to_string(command.first) +
           " .. " + std::to_string(end - 1) + " of";
  return form.window == 0 ? "" : "a cache with a window evicts by itself";
}

std::string absent_problem(const StoryCommand& command, int64_t sequences) {
  const auto there = [&](int64_t s) { return s < sequences; };
  const bool all_there =
      command.verb == StoryVerb::kReorder
          ? std::all_of(command.parents.begin(), command.parents.end(),
                        [&](char parent) { return there(parent - 'a'); })
          : there(command.sequence) &&
                (command.verb != StoryVerb::kFork || there(command.count));
  if (!all_there)
    return "there are only " + std::to_string(sequences) + " sequences";
  const auto parents = static_cast<int64_t>(command.parents.size());
  if (command.verb == StoryVerb::kReorder && parents != sequences)
    return std::to_string(parents) + " parents for " +
           std::to_string(sequences) + " sequences";
  return "";
}

std::string problem_of(const StoryCommand& command, const Sequence& sequence,
                       const StoryRules& rules) {
  if (std::string why = absent_problem(command, rules.sequences); !why.empty())
    return why;
  return refusal_reason(command, sequence.held(), rules);
}

// The tags that a sequence has used up stay its own.
void become(Sequence& sequence, const Sequence& other) {
  sequence.tokens = other.tokens;
  sequence.positions = other.positions;
  sequence.most = other.most;
}

void carry_out(const Snapshot& snapshot, Sequences& sequences) {
  const StoryCommand& command = snapshot.command;
  Sequence& sequence = sequences[static_cast<size_t>(command.sequence)];
  if (command.verb == StoryVerb::kFork)
    return become(sequences[static_cast<size_t>(command.count)], sequence);
  if (command.verb == StoryVerb::kReorder) {
    const Sequences before = sequences;
    for (size_t s = 0; s < command.parents.size(); ++s)
      become(sequences[s],
             before[static_cast<size_t>(command.parents[s] - 'a')]);
    return;
  }
  take_away(command, sequence.tokens);
  take_away(command, sequence.positions);
  for (int64_t i = 0; i < snapshot.new_tokens; ++i) {
    sequence.tokens.push_back({command.sequence, snapshot.first_new + i});
    sequence.positions.push_back(next_position(sequence.positions));
  }
  const int64_t length = sequence.length();
  sequence.most = length == 0 ? 0 : std::max(sequence.most, length);
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

std::string_view verb_name(StoryVerb verb) {
  return kVerbs[static_cast<size_t>(verb)];
}

std::optional<StoryVerb> parse_verb(std::string_view name) {
  const auto* found = std::find(kVerbs.begin(), kVerbs.end(), name);
  if (found == kVerbs.end()) return std::nullopt;
  return static_cast<StoryVerb>(found - kVerbs.begin());
}

bool appends(StoryVerb verb) {
  return verb == StoryVerb::kAppend || verb == StoryVerb::kStep;
}
bool attends(StoryVerb verb) {
  return verb == StoryVerb::kAttend || verb == StoryVerb::kStep;
}

std::string refusal_reason(const StoryCommand& command, const Held& held,
                           const StoryRules& rules) {
  switch (command.verb) {
    case StoryVerb::kAppend:
    case StoryVerb::kStep:
      return append_problem(held, command.count, rules);
    case StoryVerb::kAttend:
      return attend_problem(held, command.count, rules.form);
    case StoryVerb::kTruncate:
      return truncate_problem(held, command.count, rules.form);
    case StoryVerb::kEvict:
      return evict_problem(held, command, rules.form);
    default:
      return "";
  }
}

std::string command_text(const StoryCommand& command) {
  std::string text(verb_name(command.verb));
  text += '.';
  if (command.verb == StoryVerb::kReorder) return text + command.parents;
  text += static_cast<char>('a' + command.sequence);
  if (command.verb == StoryVerb::kReset) return text;
  text += '.';
  if (command.verb == StoryVerb::kEvict)
    text += std::to_string(command.first) + '.';
  return command.verb == StoryVerb::kFork
             ? text + static_cast<char>('a' + command.count)
             : text + std::to_string(command.count);
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

std::vector<Snapshot> play_story(const Story& story, const StoryRules& rules,
                                 const std::vector<bool>& inserted) {
  std::vector<Snapshot> snapshots;
  Sequences sequences;
  int64_t without_data = 0;  // tags given below 0
  for (const StoryCommand& command : story) {
    Sequence& sequence = sequences[static_cast<size_t>(command.sequence)];
    Snapshot snapshot;
    snapshot.command = command;
    snapshot.illegal = problem_of(command, sequence, rules);
    snapshot.new_tokens = appends(command.verb) ? command.count : 0;
    snapshot.queries = attends(command.verb) ? command.count : 0;
    if (snapshots.size() < inserted.size() && inserted[snapshots.size()]) {
      without_data += snapshot.new_tokens;
      snapshot.first_new = -without_data;
    } else {
      snapshot.first_new = sequence.next_token;
      snapshot.first_query = sequence.next_query;
      sequence.next_token += snapshot.new_tokens;
      sequence.next_query += snapshot.queries;
    }
    if (snapshot.illegal.empty()) carry_out(snapshot, sequences);
    const bool copies = command.verb == StoryVerb::kFork;
    const Sequence& shown =
        copies ? sequences[static_cast<size_t>(command.count)] : sequence;
    snapshot.history = shown.tokens;
    snapshot.positions = shown.positions;
    for (int64_t s = 0; s < rules.sequences; ++s) {
      const Sequence& one = sequences[static_cast<size_t>(s)];
      snapshot.lengths.push_back(one.length());
      snapshot.most.push_back(one.most);
    }
    snapshots.push_back(std::move(snapshot));
  }
  return snapshots;
}

int64_t least_count(StoryVerb verb) {
  return verb == StoryVerb::kTruncate ? 0 : 1;
}

int64_t story_evictions(const Story& story) {
  int64_t tokens = 0;
  for (const StoryCommand& command : story)
    tokens += command.verb == StoryVerb::kEvict ? command.count : 0;
  return tokens;
}

int64_t story_tokens(const Story& story) { return most_used(story, appends); }
int64_t story_queries(const Story& story) { return most_used(story, attends); }

}  // namespace qkvet
