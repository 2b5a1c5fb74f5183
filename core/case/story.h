// SPDX-License-Identifier: Apache-2.0
// A cache story: the commands to a KV cache, as data. One spelling, e.g.
// "step.a.3+append.b.2+truncate.a.1+reset.b+attend.a.1".
//
//   append.S.N    N new tokens for sequence S (a .. h)
//   attend.S.N    N queries, at the last N positions of S
//   step.S.N      append.S.N and attend.S.N in one call: prefill, chunk, decode
//   truncate.S.N  S keeps its first N tokens
//   evict.S.F.N   tokens F .. F + N - 1 leave S, the others stay where they are
//   reset.S       S is empty again
//   fork.S.T      T becomes what S is
//   reorder.PPP   every sequence becomes what the one named at its position was
//
// Every token that a story appends to a sequence has a number of its own, its
// tag, counted from 0 in the order of the story and never used again; the data
// is a function of (sequence, tag), and a fork copies it. Queries are counted
// the same way. So a token that replaces a truncated one has other values.
#ifndef QKVET_CORE_CASE_STORY_H_
#define QKVET_CORE_CASE_STORY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/call/cache_form.h"

namespace qkvet {

enum class StoryVerb : uint8_t {
  kAppend,
  kAttend,
  kStep,
  kTruncate,
  kEvict,
  kReset,
  kFork,
  kReorder
};

struct StoryCommand {
  StoryVerb verb = StoryVerb::kStep;
  int64_t sequence = 0;   // fork: what is copied; reorder: 0
  int64_t count = 0;      // tokens, queries; fork: what becomes the copy
  std::string parents{};  // reorder: a letter for every sequence
  int64_t first = 0;      // evict: the first token that leaves

  friend auto operator<=>(const StoryCommand&, const StoryCommand&) = default;
};
using Story = std::vector<StoryCommand>;

// Most sequences that a story can have: those with a letter.
inline constexpr int64_t kMostSequences = 8;
inline constexpr size_t kMostCommands = 256;
inline constexpr int64_t kMostStoryTokens = int64_t{1} << 20;

// StoryCommand::parents has one character for each sequence: 'a' plus the
// parent, modulo 256, which is kMostCacheSequences.
inline char parent_letter(int64_t sequence) {
  return static_cast<char>('a' + sequence);
}
inline int64_t parent_place(char letter) {
  return static_cast<uint8_t>(letter - 'a');
}
// The parents of `sequences` sequences that stay as they are.
std::string own_parents(int64_t sequences);

// The number of the sequence that a word names; nullopt: it names none.
using SequenceNamed =
    std::function<std::optional<int64_t>(std::string_view word)>;
inline constexpr std::string_view kCommandWords =
    "write append ID N, attend ID N, step ID N, truncate ID N, evict ID F N, "
    "reset ID, fork ID NEWID or reorder ID=ID ID=ID ...";
// Reads a command other than reorder from its words, such as step, a, 3. "" or
// what is wrong with them.
std::string read_command(std::span<const std::string_view> words,
                         const SequenceNamed& named, StoryCommand* command);

std::string command_text(const StoryCommand& command);
std::string story_text(const Story& story);
// On failure *error is one line that names what is allowed.
std::optional<Story> parse_story(std::string_view text, std::string* error);

// A token of a history: number `tag` of those that `sequence` was given.
struct Token {
  int64_t sequence = 0;
  int64_t tag = 0;

  friend auto operator<=>(const Token&, const Token&) = default;
};

// One command of a story, with the tokens that it adds and the state after it.
struct Snapshot {
  StoryCommand command;
  std::string illegal;  // "" or why the cache must refuse the command
  int64_t first_new = 0, new_tokens = 0;  // tags
  int64_t first_query = 0, queries = 0;   // tags
  std::vector<Token> history;  // what the sequence (the copy) holds afterwards
  std::vector<int64_t> positions;  // positions of these tokens, ascending
  std::vector<int64_t> lengths;    // of all sequences, afterwards
  // The most tokens that each sequence held since it was last empty.
  std::vector<int64_t> most;

  friend auto operator<=>(const Snapshot&, const Snapshot&) = default;
};

struct StoryRules {
  int64_t sequences = 1;
  int64_t capacity = 1;
  bool grows = false;  // the capacity is only a hint
  CacheForm form{};
};

// "append", ..., in the order of StoryVerb, and back.
std::string_view verb_name(StoryVerb verb);
std::optional<StoryVerb> parse_verb(std::string_view name);
// The least count of a command: only truncate means something for 0 tokens.
int64_t least_count(StoryVerb verb);
bool appends(StoryVerb verb);
bool attends(StoryVerb verb);

// The one machine that plays commands on a cache and books what its sequences
// hold. Every sequence gives its tokens and queries their tags in order,
// whether its commands are legal or not.
class HeldSequences {
 public:
  explicit HeldSequences(const StoryRules& rules);

  // Carries out the command unless it is illegal. A command that is `inserted`
  // uses up no tag: it appends tokens without data, with tags below 0, so that
  // the rest of the story is the same as without it.
  Snapshot play(const StoryCommand& command, bool inserted = false);

 private:
  struct Sequence {
    std::vector<Token> tokens;
    std::vector<int64_t> positions;  // of the tokens
    int64_t most = 0;  // tokens that were there at a time since it was empty

    int64_t length() const { return static_cast<int64_t>(tokens.size()); }
  };
  struct Tags {
    int64_t token = 0, query = 0;  // the next ones
  };

  Sequence& at(int64_t sequence) {
    return sequences_[static_cast<size_t>(sequence)];
  }
  std::string refusal_reason(const StoryCommand& command);
  std::string append_problem(const Sequence& held, int64_t count) const;
  std::string attend_problem(const Sequence& held, int64_t count) const;
  std::string truncate_problem(const Sequence& held, int64_t count) const;
  std::string evict_problem(const Sequence& held,
                            const StoryCommand& command) const;
  void carry_out(const Snapshot& snapshot);

  StoryRules rules_;
  std::vector<Sequence> sequences_;
  std::vector<Tags> tags_;    // of a sequence; a fork or a reorder moves none
  int64_t without_data_ = 0;  // tags given below 0
};

// `inserted`: by the number of the command.
std::vector<Snapshot> play_story(const Story& story, const StoryRules& rules,
                                 const std::vector<bool>& inserted = {});

// A token goes to the last position plus one; the first one to position 0.
inline int64_t next_position(const std::vector<int64_t>& positions) {
  return positions.empty() ? 0 : positions.back() + 1;
}

// The number of tokens that the story's evictions remove. A token's position
// exceeds its index in its sequence by at most this.
int64_t story_evictions(const Story& story);

// How many tags the story uses in any one sequence, at least 1.
int64_t story_tokens(const Story& story);
int64_t story_queries(const Story& story);

}  // namespace qkvet

#endif  // QKVET_CORE_CASE_STORY_H_
