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

// The number of a sequence by its letter; nullopt for any other text.
std::optional<int64_t> sequence_of(std::string_view letter) {
  if (letter.size() != 1 || letter[0] < 'a' ||
      letter[0] >= 'a' + kMostSequences)
    return std::nullopt;
  return letter[0] - 'a';
}

// The words between dots.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (;;) {
    const size_t dot = std::min(text.find('.'), text.size());
    words.push_back(text.substr(0, dot));
    if (dot == text.size()) return words;
    text.remove_prefix(dot + 1);
  }
}

bool are_sequences(std::string_view letters) {
  return !letters.empty() &&
         static_cast<int64_t>(letters.size()) <= kMostSequences &&
         std::all_of(letters.begin(), letters.end(), [](const char& letter) {
           return sequence_of({&letter, 1}).has_value();
         });
}

std::optional<StoryCommand> parse_command(std::string_view text,
                                          std::string* error) {
  const auto words = words_of(text);
  StoryCommand command;
  if (words.size() == 2 && parse_verb(words[0]) == StoryVerb::kReorder &&
      are_sequences(words[1])) {
    command.verb = StoryVerb::kReorder;
    command.parents = words[1];
    return command;
  }
  if (read_command(words, sequence_of, &command).empty()) return command;
  *error =
      "command \"" + std::string(text) +
      "\": write append.a.N, attend.a.N, step.a.N, truncate.a.N, "
      "evict.a.F.N, reset.a, fork.a.b or reorder.ba, with sequences a .. h "
      "and numbers up to " +
      std::to_string(kMostStoryTokens);
  return std::nullopt;
}

// Reads words[at]: "" or what is wrong with it.
std::string read_number(std::span<const std::string_view> words, size_t at,
                        int64_t least, int64_t& tokens) {
  tokens = number<int64_t>(words[at]).value_or(-1);
  if (least <= tokens && tokens <= kMostStoryTokens) return "";
  return quoted(words[at]) + ": " + std::string(words[0]) +
         " takes a number, " + std::to_string(least) + " .. " +
         std::to_string(kMostStoryTokens);
}

std::string absent_problem(const StoryCommand& command, int64_t sequences) {
  const auto there = [&](int64_t s) { return s < sequences; };
  const bool all_there =
      command.verb == StoryVerb::kReorder
          ? std::all_of(
                command.parents.begin(), command.parents.end(),
                [&](char parent) { return there(parent_place(parent)); })
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

// Erases the entries of tokens that reset, truncate and evict take away; `all`
// has one entry a token.
template <class Each>
void take_away(const StoryCommand& command, std::vector<Each>& all) {
  if (command.verb == StoryVerb::kReset) all.clear();
  if (command.verb == StoryVerb::kTruncate)
    all.resize(static_cast<size_t>(command.count));
  if (command.verb == StoryVerb::kEvict) {
    const auto from = all.begin() + static_cast<ptrdiff_t>(command.first);
    all.erase(from, from + static_cast<ptrdiff_t>(command.count));
  }
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

// A command may name one that is not there.
HeldSequences::HeldSequences(const StoryRules& rules)
    : rules_(rules),
      sequences_(
          static_cast<size_t>(std::max(rules.sequences, kMostSequences))),
      tags_(sequences_.size()) {}

std::string HeldSequences::append_problem(const Sequence& held,
                                          int64_t count) const {
  if (rules_.grows || held.length() + count <= rules_.capacity) return "";
  return std::to_string(held.length()) + " + " + std::to_string(count) +
         " tokens are more than the capacity, " +
         std::to_string(rules_.capacity);
}

std::string HeldSequences::attend_problem(const Sequence& held,
                                          int64_t count) const {
  if (count > held.length())
    return std::to_string(count) + " queries over " +
           std::to_string(held.length()) + " tokens";
  const int64_t first = held.length() - count;
  const int64_t behind = held.most - 1 - first;
  if (rules_.form.window == 0 || behind <= rules_.form.rollback) return "";
  return "a query stands " + std::to_string(behind) +
         " tokens behind the furthest one, the window can go back " +
         std::to_string(rules_.form.rollback);
}

std::string HeldSequences::truncate_problem(const Sequence& held,
                                            int64_t count) const {
  if (count < 0) return std::to_string(count) + " tokens are fewer than none";
  if (count > held.length())
    return "only " + std::to_string(held.length()) +
           " tokens are there to keep " + std::to_string(count) + " of";
  const int64_t back = held.most - count;
  if (rules_.form.window == 0 || back <= rules_.form.rollback) return "";
  return std::to_string(back) +
         " tokens are taken back, the window can go back " +
         std::to_string(rules_.form.rollback);
}

std::string HeldSequences::evict_problem(const Sequence& held,
                                         const StoryCommand& command) const {
  const int64_t end = command.first + command.count;
  if (command.first < 0)
    return "token " + std::to_string(command.first) + " is before the first";
  if (end > held.length())
    return "only " + std::to_string(held.length()) +
           " tokens are there to take " + std::to_string(command.first) +
           " .. " + std::to_string(end - 1) + " of";
  return rules_.form.window == 0 ? ""
                                 : "a cache with a window evicts by itself";
}

std::string HeldSequences::refusal_reason(const StoryCommand& command) {
  if (auto problem = absent_problem(command, rules_.sequences);
      !problem.empty())
    return problem;
  const Sequence& held = at(command.sequence);
  switch (command.verb) {
    case StoryVerb::kAppend:
    case StoryVerb::kStep:
      return append_problem(held, command.count);
    case StoryVerb::kAttend:
      return attend_problem(held, command.count);
    case StoryVerb::kTruncate:
      return truncate_problem(held, command.count);
    case StoryVerb::kEvict:
      return evict_problem(held, command);
    default:
      return "";
  }
}

void HeldSequences::carry_out(const Snapshot& snapshot) {
  const StoryCommand& command = snapshot.command;
  Sequence& sequence = at(command.sequence);
  if (command.verb == StoryVerb::kFork) {
    const Sequence copy = sequence;
    at(command.count) = copy;
    return;
  }
  if (command.verb == StoryVerb::kReorder) {
    const std::vector<Sequence> before = sequences_;
    for (size_t s = 0; s < command.parents.size(); ++s)
      sequences_[s] =
          before[static_cast<size_t>(parent_place(command.parents[s]))];
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

Snapshot HeldSequences::play(const StoryCommand& command, bool inserted) {
  Tags& next = tags_[static_cast<size_t>(command.sequence)];
  Snapshot snapshot;
  snapshot.command = command;
  snapshot.illegal = refusal_reason(command);
  snapshot.new_tokens = appends(command.verb) ? command.count : 0;
  snapshot.queries = attends(command.verb) ? command.count : 0;
  if (inserted) {
    without_data_ += snapshot.new_tokens;
    snapshot.first_new = -without_data_;
  } else {
    snapshot.first_new = next.token;
    snapshot.first_query = next.query;
    next.token += snapshot.new_tokens;
    next.query += snapshot.queries;
  }
  if (snapshot.illegal.empty()) carry_out(snapshot);
  const bool copies = command.verb == StoryVerb::kFork;
  const Sequence& shown = at(copies ? command.count : command.sequence);
  snapshot.history = shown.tokens;
  snapshot.positions = shown.positions;
  for (int64_t s = 0; s < rules_.sequences; ++s) {
    snapshot.lengths.push_back(at(s).length());
    snapshot.most.push_back(at(s).most);
  }
  return snapshot;
}

std::string own_parents(int64_t sequences) {
  std::string parents;
  for (int64_t s = 0; s < sequences; ++s) parents += parent_letter(s);
  return parents;
}

std::string read_command(std::span<const std::string_view> words,
                         const SequenceNamed& named, StoryCommand* command) {
  const auto verb = parse_verb(words[0]);
  if (!verb || verb == StoryVerb::kReorder)
    return quoted(words[0]) + ": " + std::string(kCommandWords);
  command->verb = *verb;
  const size_t needed = *verb == StoryVerb::kReset   ? 2
                        : *verb == StoryVerb::kEvict ? 4
                                                     : 3;
  if (words.size() != needed)
    return std::string(words[0]) + " with " + std::to_string(words.size() - 1) +
           " words: " + std::string(kCommandWords);
  const auto read_sequence = [&](size_t at, int64_t& sequence) {
    const auto found = named(words[at]);
    sequence = found.value_or(0);
    return found ? "" : quoted(words[at]) + ": an id has no \"=\"";
  };
  std::string wrong = read_sequence(1, command->sequence);
  if (wrong.empty() && *verb == StoryVerb::kEvict)
    wrong = read_number(words, 2, 0, command->first);
  if (!wrong.empty() || *verb == StoryVerb::kReset) return wrong;
  return *verb == StoryVerb::kFork
             ? read_sequence(2, command->count)
             : read_number(words, needed - 1, least_count(*verb),
                           command->count);
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
  HeldSequences sequences(rules);
  for (size_t n = 0; n < story.size(); ++n)
    snapshots.push_back(
        sequences.play(story[n], n < inserted.size() && inserted[n]));
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
