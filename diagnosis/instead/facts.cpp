// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/facts.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "properties/calls/story_calls.h"
#include "properties/calls/story_storage.h"
#include "properties/judging/compare.h"

namespace qkvet::diagnosis {
namespace {

std::string place_text(const MemoryFault& fault) {
  const std::string name = fault.of_reason ? "the text of its reason"
                           : fault.tensor  ? tensor_name(*fault.tensor)
                                           : "the workspace";
  const char* verb = fault.is_write ? "written" : "read";
  if (fault.between)
    return name + " is " + verb +
           " where none of its parts lies, which are far apart";
  if (fault.inside) return name + ", which is an input, is written to";
  return name + " is " + verb +
         (fault.before_start ? " in front of its start" : " beyond its end");
}

// What ends a call; "": it ends as it should.
std::string end_text(const CallOutcome& outcome) {
  if (outcome.fault)
    return outcome.fault->tensor
               ? place_text(*outcome.fault)
               : "memory is touched that no tensor is near to";
  if (outcome.damage) return place_text(*outcome.damage);
  switch (outcome.status) {
    case CallStatus::kFault:
      return "memory is touched that no tensor is near to";
    case CallStatus::kCrash:
      return "the process ends";
    case CallStatus::kHang:
      return "the call does not end";
    case CallStatus::kOutOfMemory:
      return "the call ends for want of memory";
    case CallStatus::kRefused:
      return "the call is refused";
    default:
      return "";
  }
}

}  // namespace

Facts facts_of_calls(const Evidence& evidence, const JudgedKernel& kernel) {
  const bool is_story = evidence.value().subject() == Subject::kCache;
  const Plan plan =
      is_story ? evidence.law->plan(evidence.value(), kernel.info) : Plan{};
  for (size_t n = 0; n < evidence.outcomes.size(); ++n) {
    const CallOutcome& outcome = evidence.outcomes[n];
    const std::string end = end_text(outcome);
    if (end.empty()) continue;
    if (!is_story) return {end};
    const PlannedCall& whole = plan.calls[n];
    // Some commands are to be refused, and are.
    if (outcome.status == CallStatus::kRefused && whole.expects_refusal)
      continue;
    Facts facts;
    if (whole.snapshot && whole.operation != Operation::kCacheCreate &&
        whole.operation != Operation::kCacheReadBack)
      facts.push_back("in `" +
                      std::string(verb_name(whole.snapshot->command.verb)) +
                      "` " + end);
    if (whole.operation == Operation::kCacheReadBack)
      facts.push_back("in read_back() " + end);
    facts.push_back(end);
    if (outcome.status != CallStatus::kRefused &&
        outcome.status != CallStatus::kHang)
      facts.push_back(
          "the process ends, or touches memory that is not its own");
    return facts;
  }
  return {};
}

namespace {

// What a sequence holds, held in front of the last command, and ever held.
struct Holdings {
  std::vector<Token> now, before;
  std::set<Token> ever;

  void become(const std::vector<Token>& tokens) {
    before = std::exchange(now, tokens);
    ever.insert(tokens.begin(), tokens.end());
  }
};

// Those of every sequence, and all tokens that the cache was given.
class HeldTokens {
 public:
  explicit HeldTokens(int64_t sequences)
      : held_(static_cast<size_t>(sequences)) {}

  void play(const Snapshot& snapshot) {
    const StoryCommand& command = snapshot.command;
    brought_.insert(snapshot.history.begin(), snapshot.history.end());
    const std::vector<Holdings> were = held_;
    for (size_t s = 0; s < held_.size(); ++s) {
      const auto is = [s](int64_t sequence) {
        return std::cmp_equal(s, sequence);
      };
      if (command.verb == StoryVerb::kReorder)
        held_[s].become(
            were[static_cast<size_t>(command.parents[s] - 'a')].now);
      else if (is(command.verb == StoryVerb::kFork ? command.count
                                                   : command.sequence))
        held_[s].become(snapshot.history);
    }
  }

  const Holdings& of(int64_t sequence) const {
    return held_[static_cast<size_t>(sequence)];
  }
  const std::set<Token>& brought() const { return brought_; }

 private:
  std::vector<Holdings> held_;
  std::set<Token> brought_;
};

// Where the rows of a story's tokens lie in its inputs, and those of what was
// read back.
class ReadBack {
 public:
  ReadBack(const Case& value, const Inputs& own, const Snapshot& snapshot,
           const CallOutcome& read, const HeldTokens& held)
      : s_(value.shape),
        own_(own),
        history_(snapshot.history),
        held_(held.of(snapshot.command.sequence)),
        brought_(held.brought()),
        k_(as_doubles(read.stage_k, Dtype::kF32)),
        v_(as_doubles(read.stage_v, Dtype::kF32)) {}

  bool is_known() const {
    const auto rows = static_cast<size_t>(s_.Hkv * tokens());
    return rows > 0 && k_.size() == rows * static_cast<size_t>(s_.d) &&
           v_.size() == rows * static_cast<size_t>(s_.dv);
  }

  // What is said of every wrong row, the most particular in front. Nothing:
  // none is wrong.
  std::optional<Facts> facts() const {
    std::optional<Facts> common;
    bool of_keys = false, of_values = false;
    for (const bool keys : {true, false})
      for (int64_t h = 0; h < s_.Hkv; ++h)
        for (int64_t t = 0; t < tokens(); ++t) {
          const Token right = history_[static_cast<size_t>(t)];
          if (holds(keys, h, t, h, right)) continue;
          (keys ? of_keys : of_values) = true;
          const Facts here = said_of(keys, h, t);
          if (!common) common = here;
          std::erase_if(*common, [&](const std::string& one) {
            return !shows(here, one);
          });
        }
    if (!common) return std::nullopt;
    Facts out;
    const std::string which = of_keys && of_values ? "keys and values"
                              : of_keys            ? "keys"
                                                   : "values";
    for (const std::string& one : *common)
      out.push_back("the wrong " + which + " that are read back are " + one);
    return out;
  }

 private:
  int64_t tokens() const { return std::ssize(history_); }

  const double* stored(bool keys, int64_t h, int64_t t) const {
    const int64_t width = keys ? s_.d : s_.dv;
    return (keys ? k_ : v_).data() + (h * tokens() + t) * width;
  }
  const double* given(bool keys, int64_t h, const Token& token) const {
    const int64_t width = keys ? s_.d : s_.dv;
    return (keys ? own_.k : own_.v).data() +
           ((token.sequence * s_.Hkv + h) * s_.Tk + token.tag) * width;
  }
  // Whether the row of head h at place t is what this token was given for
  // that head.
  bool holds(bool keys, int64_t h, int64_t t, int64_t of_head,
             const Token& token) const {
    if (token.sequence < 0 || token.sequence >= s_.B || token.tag < 0 ||
        token.tag >= s_.Tk)
      return false;
    const double* row = stored(keys, h, t);
    return std::equal(row, row + (keys ? s_.d : s_.dv),
                      given(keys, of_head, token));
  }

  Facts said_of(bool keys, int64_t h, int64_t t) const {
    Facts said;
    const auto is_at = [&](const std::vector<Token>& held, int64_t at) {
      return at >= 0 && at < std::ssize(held) &&
             holds(keys, h, t, h, held[static_cast<size_t>(at)]);
    };
    const auto say = [&](bool is_so, const std::string& what) {
      if (is_so) said.push_back(what);
    };
    say(is_at(history_, t + 1), "those of the token behind");
    say(is_at(history_, t - 1), "those of the token in front");
    say(is_at(history_, 0), "those of the first token");
    say(is_at(history_, tokens() - 1), "those of the last token");
    for (const int64_t page : {2, 4, 8, 16, 32, 64}) {
      const std::string of_page =
          " of their page of " + std::to_string(page) + " tokens";
      say(is_at(history_, t / page * page),
          "those of the first token" + of_page);
      say(is_at(history_, t / page * page + t / page % page),
          "those of the token whose number in its page is that" + of_page);
    }
    say(is_at(held_.before, t),
        "what stood in their place before the last command");
    const auto is_held = [&](const Token& token) {
      return std::find(history_.begin(), history_.end(), token) !=
             history_.end();
    };
    bool of_own = false, of_lost = false, of_other = false, of_head = false;
    for (const Token& token : brought_) {
      for (int64_t other = 0; other < s_.Hkv; ++other)
        of_head |= other != h && holds(keys, h, t, other, token);
      if (!holds(keys, h, t, h, token)) continue;
      of_own |= is_held(token);
      of_lost |= !is_held(token) && held_.ever.count(token) > 0;
      of_other |= !is_held(token);
    }
    say(of_own, "those of another token of the sequence");
    say(of_lost, "those of a token that the sequence holds no more");
    say(of_other, "those of a token that the sequence does not hold");
    say(of_own || of_other, "those of another token");
    say(of_head, "those of another kv head");
    const double* row = stored(keys, h, t);
    const double* end = row + (keys ? s_.d : s_.dv);
    say(std::all_of(row, end, [](double x) { return x == 0; }), "zeros");
    say(!of_own && !of_other && !of_head, "what no token was given");
    say(!of_own, "those of no token of the sequence");
    return said;
  }

  const Shape& s_;
  const Inputs& own_;
  const std::vector<Token>& history_;
  const Holdings& held_;
  const std::set<Token>& brought_;
  std::vector<double> k_, v_;
};

}  // namespace

std::optional<Facts> facts_of_storage(const Evidence& evidence,
                                      const JudgedKernel& kernel) {
  const Case& value = evidence.value();
  if (value.subject() != Subject::kCache || !evidence.failed() ||
      !gives_back_as_stored(kernel.info) || value.cache.window > 0 ||
      value.cache.stored != StoredAs::kAsGiven)
    return std::nullopt;
  const Inputs& own = evidence.work->own_inputs();
  const Plan plan = evidence.law->plan(value, kernel.info);
  HeldTokens held(value.shape.B);
  for (size_t n = 0; n < evidence.outcomes.size(); ++n) {
    const PlannedCall& planned = plan.calls[n];
    if (!planned.snapshot || !planned.snapshot->illegal.empty() ||
        planned.operation == Operation::kCacheCreate)
      continue;
    if (planned.operation != Operation::kCacheReadBack) {
      held.play(*planned.snapshot);
      continue;
    }
    if (evidence.outcomes[n].status != CallStatus::kDone) return std::nullopt;
    const ReadBack read(value, own, *planned.snapshot, evidence.outcomes[n],
                        held);
    if (!read.is_known()) return std::nullopt;
    if (auto facts = read.facts()) return facts;
  }
  return std::nullopt;
}

bool shows(const Facts& facts, const std::string& fact) {
  return std::find(facts.begin(), facts.end(), fact) != facts.end();
}

std::optional<std::string> common_fact(const std::vector<Facts>& cases) {
  if (cases.empty()) return std::nullopt;
  for (const std::string& one : cases[0])
    if (std::all_of(cases.begin(), cases.end(),
                    [&](const Facts& facts) { return shows(facts, one); }))
      return one;
  return std::nullopt;
}

}  // namespace qkvet::diagnosis
