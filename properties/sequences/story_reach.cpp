// SPDX-License-Identifier: Apache-2.0
// The history of the answer stays as it is; every other token of the story is
// given other keys and values, and the story is run again. If the answer then
// has other bits, the token reaches it.
#include <algorithm>
#include <map>
#include <set>

#include "properties/sequences/played_story.h"
#include "properties/sequences/story_fault.h"
#include "properties/sequences/story_run.h"

namespace qkvet::properties {
namespace {

constexpr size_t kMostNamed = 4;  // tokens of one Reach
constexpr int kSteadyRuns = 3;

using Tokens = std::vector<Token>;

bool same_bits(const StoryRun::Ran& a, const StoryRun::Ran& b, bool read) {
  return a.answer.o == b.answer.o && a.answer.lse == b.answer.lse &&
         (!read || (a.read.stage_k == b.read.stage_k &&
                    a.read.stage_v == b.read.stage_v));
}

// The story with one kind of data, and the changes that alter its answer.
class Experiment {
 public:
  // `finite`: whether tokens are given finite numbers, or NaN.
  Experiment(const StoryRun& story, Inputs data, bool finite = true)
      : story_(story),
        data_(std::move(data)),
        finite_(finite),
        reads_(story.calls().back().operation == Operation::kCacheReadBack) {}

  bool is_steady() {
    story_.run(data_);
    first_ = story_.run(data_);
    for (int i = 1; i < kSteadyRuns; ++i)
      if (!is_as_first(story_.run(data_))) return false;
    return first_.has_value();
  }

  // Between any two runs with other data there is one with this data. A kernel
  // that reads memory of an earlier cache then always finds the same there;
  // otherwise it would seem to read another token.
  bool changes_with(const Tokens& tokens) {
    Inputs other = data_;
    for (const Token& token : tokens) story_.change(token, finite_, other);
    const auto once = story_.run(other);
    story_.run(data_);
    if (!once || is_as_first(once)) return false;
    const bool steady = is_as_first(story_.run(data_));
    const auto twice = story_.run(other);
    story_.run(data_);
    return steady && twice && same_bits(*once, *twice, reads_);
  }

 private:
  bool is_as_first(const std::optional<StoryRun::Ran>& ran) const {
    return ran && first_ && same_bits(*ran, *first_, reads_);
  }

  const StoryRun& story_;
  Inputs data_;
  bool finite_;
  bool reads_;  // the answer is read back
  std::optional<StoryRun::Ran> first_;
};

// The contents of the sequences, command by command.
class Holdings {
 public:
  explicit Holdings(const StoryRun& story) {
    for (const PlannedCall& call : story.calls()) {
      const bool moves = call.operation != Operation::kCacheCreate &&
                         call.operation != Operation::kCacheReadBack;
      if (moves && !call.expects_refusal) follow(*call.snapshot);
    }
  }

  // The sequence that holds the token: the one that it was given to, if it
  // still has it; -1: none.
  int64_t holder(const Token& token) const {
    if (held_.holds(token.sequence, token)) return token.sequence;
    for (int64_t s = 0; s < held_.sequences(); ++s)
      if (held_.holds(s, token)) return s;
    return -1;
  }

  // How the sequence that it was given to has lost it.
  std::string loss(const BroughtToken& brought) const {
    if (!brought.accepted) return "refused";
    const auto found = lost_.find(brought.token);
    return found == lost_.end() ? "" : found->second;
  }

 private:
  void follow(const Snapshot& snapshot) {
    const TokensHeld before = held_;
    held_.play(snapshot);
    const StoryCommand& command = snapshot.command;
    const std::string how =
        command.verb == StoryVerb::kTruncate ? "taken back"
        : command.verb == StoryVerb::kEvict  ? "evicted"
        : command.verb == StoryVerb::kReset
            ? "reset"
            : "dropped by a " + std::string(verb_name(command.verb));
    for (int64_t s = 0; s < before.sequences(); ++s)
      for (const Token& token : before.of(s))
        if (token.sequence == s && !held_.holds(s, token)) lost_[token] = how;
  }

  TokensHeld held_;
  std::map<Token, std::string> lost_;
};

// Tokens that are the same to the reader: their owner, and why they should not
// be seen.
struct Group {
  Reach reach;
  Tokens tokens;
};

std::vector<Group> groups_of(const StoryRun& story) {
  const Holdings holdings(story);
  const Snapshot& snapshot = story.snapshot();
  const int64_t into = snapshot.command.sequence;
  const std::set<Token> own(snapshot.history.begin(), snapshot.history.end());
  std::vector<Group> groups;
  for (const BroughtToken& one : story.tokens()) {
    // An illegal command may name a sequence that is not there.
    if (own.contains(one.token) || one.token.sequence >= story.value().shape.B)
      continue;
    const int64_t holder = holdings.holder(one.token);
    Reach reach;
    reach.into = into;
    reach.of = holder >= 0 ? holder : one.token.sequence;
    reach.stale = reach.of == into;
    if (holder < 0) reach.lost = holdings.loss(one);
    reach.moved = holder >= 0 && holder != one.token.sequence;
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
          return group.reach.of == reach.of && group.reach.lost == reach.lost &&
                 group.reach.moved == reach.moved;
        });
    if (found == groups.end())
      groups.push_back({std::move(reach), {one.token}});
    else
      found->tokens.push_back(one.token);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) {
                     return a.reach.stale < b.reach.stale;
                   });
  return groups;
}

// Halves of the tokens that change the answer, down to single ones. Two that
// only do so together are not named.
void name_tokens(const StoryRun& story, Experiment& experiment,
                 const Tokens& tokens, Reach& reach) {
  if (reach.more) return;
  if (tokens.size() == 1) {
    const std::string name = story.name_of(tokens[0]);
    auto& names = reach.tokens;
    if (std::find(names.begin(), names.end(), name) != names.end()) return;
    reach.more = names.size() == kMostNamed;
    if (!reach.more) names.push_back(name);
    return;
  }
  const auto middle =
      tokens.begin() + static_cast<ptrdiff_t>(tokens.size() / 2);
  for (const Tokens& half :
       {Tokens(tokens.begin(), middle), Tokens(middle, tokens.end())})
    if (experiment.changes_with(half))
      name_tokens(story, experiment, half, reach);
}

std::vector<Reach> reaches_with(const StoryRun& story, Inputs data,
                                bool finite = true) {
  std::vector<Reach> reaches;
  Experiment experiment(story, std::move(data), finite);
  if (!experiment.is_steady()) return reaches;
  for (Group& group : groups_of(story)) {
    if (!experiment.changes_with(group.tokens)) continue;
    name_tokens(story, experiment, group.tokens, group.reach);
    group.reach.if_nan = !finite;
    reaches.push_back(std::move(group.reach));
  }
  return reaches;
}

}  // namespace

bool is_steady(const StoryRun& story) {
  return Experiment(story, story.own_data(/*finite=*/true)).is_steady();
}

std::vector<Reach> find_reaches(const StoryRun& story) {
  auto reaches = reaches_with(story, story.own_data(/*finite=*/true));
  // With data such as equal keys, or one that takes all weight, a token may
  // reach an answer and change no bit of it.
  if (reaches.empty()) reaches = reaches_with(story, story.moderate_data());
  // Weight 0 times NaN is NaN, which laws make use of.
  const auto& tokens = story.tokens();
  const bool law_gave_nan =
      std::any_of(tokens.begin(), tokens.end(),
                  [](const BroughtToken& one) { return one.is_nan; });
  if (reaches.empty() && law_gave_nan)
    reaches = reaches_with(story, story.own_data(/*finite=*/true),
                           /*finite=*/false);
  return reaches;
}

std::string reach_text(const Reach& reach) {
  if (reach.of < 0)
    return std::string("LEAK: ") +
           (reach.of == Reach::kUnowned ? "the content of unowned slots"
                                        : "a token of another member") +
           " reaches member " + std::to_string(reach.into);
  const auto letter = [](int64_t number) {
    return std::string(1, static_cast<char>('a' + number));
  };
  std::string names;
  for (const std::string& token : reach.tokens)
    names += (names.empty() ? "" : ", ") + token;
  if (reach.more) names += " and others";
  const bool many = reach.tokens.size() != 1 || reach.more;
  std::string which;
  if (reach.moved) which = ", which " + letter(reach.of) + " holds now";
  if (!reach.lost.empty())
    which = std::string(", which ") + (many ? "were " : "was ") + reach.lost;
  const std::string into = letter(reach.into);
  const char* const condition = reach.if_nan ? ", if it is NaN" : "";
  if (!reach.stale)
    return "LEAK: a token of sequence " + letter(reach.of) +
           " reaches sequence " + into + (names.empty() ? "" : ": ") + names +
           which + condition;
  if (names.empty()) names = "some of sequence " + letter(reach.of);
  const bool is_nan = names.starts_with("the NaN");
  return std::string("STALE: ") +
         (is_nan ? ""
          : many ? "tokens "
                 : "token ") +
         names + which + (which.empty() ? "" : ",") +
         (many ? " reach" : " reaches") + " sequence " + into + condition;
}

}  // namespace qkvet::properties
