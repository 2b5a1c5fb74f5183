// SPDX-License-Identifier: Apache-2.0
#include "diagnosis/instead/facts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "core/door/call_plan.h"
#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"
#include "properties/sequences/story_storage.h"

namespace qkvet::diagnosis {
namespace {

std::string place_text(const MemoryFault& fault) {
  const std::string name = owner_name(fault);
  const char* verb = fault.is_write ? "written" : "read";
  if (fault.between)
    return name + " is " + verb +
           " where none of its parts lies, which are far apart";
  // The elements of an output may be written, and gaps between them may not.
  if (fault.inside)
    return name + (fault.tensor && is_output(*fault.tensor)
                       ? " is written between its elements"
                       : ", which is an input, is written to");
  return name + " is " + verb +
         (fault.before_start ? " before its start" : " beyond its end");
}

// How a call ends, the most specific fact first; empty: it ends as it should.
Facts ends_of(const CallOutcome& outcome) {
  static const std::string kNear =
      "memory is touched that no tensor is near to";
  static const std::string kDead =
      "the process ends, or touches memory that is not its own";
  if (const auto& fault = outcome.fault ? outcome.fault : outcome.damage) {
    if (!fault->tensor && !fault->of_reason && !fault->of_heap && outcome.fault)
      return {kNear, kDead};
    Facts facts = {place_text(*fault)};
    // The case may determine which of them is next to its guard, or is read
    // first.
    if (fault->tensor && !fault->inside)
      facts.push_back(fmt::format(
          "a tensor is {} {}", fault->is_write ? "written" : "read",
          fault->before_start ? "before its start" : "beyond its end"));
    facts.push_back(kDead);
    return facts;
  }
  switch (outcome.status) {
    case CallStatus::kFault:
      return {kNear, kDead};
    case CallStatus::kCrash:
      return {"the process ends", kDead};
    case CallStatus::kHang:
      return {"the call does not end"};
    case CallStatus::kOutOfMemory:
      return {"the call ends for want of memory", kDead};
    case CallStatus::kRefused:
      return {"the call is refused"};
    default:
      return {};
  }
}

}  // namespace

Facts facts_of_calls(const Evidence& evidence, const JudgedKernel& kernel) {
  const bool is_story = evidence.value().subject() == Subject::kCache;
  const Plan plan =
      is_story ? evidence.law->plan(evidence.value(), kernel.info) : Plan{};
  for (size_t n = 0; n < evidence.outcomes.size(); ++n) {
    const CallOutcome& outcome = evidence.outcomes[n];
    const Facts ends = ends_of(outcome);
    if (ends.empty()) continue;
    if (!is_story) return ends;
    const PlannedCall& whole = plan.calls[n];
    // Some commands must be refused, and are.
    if (outcome.status == CallStatus::kRefused && whole.expects_refusal)
      continue;
    Facts facts;
    if (whole.snapshot && whole.operation != Operation::kCacheCreate &&
        whole.operation != Operation::kCacheReadBack)
      facts.push_back("in `" +
                      std::string(verb_name(whole.snapshot->command.verb)) +
                      "` " + ends[0]);
    if (whole.operation == Operation::kCacheReadBack)
      facts.push_back("in read_back() " + ends[0]);
    facts.insert(facts.end(), ends.begin(), ends.end());
    return facts;
  }
  return {};
}

namespace {

// The command after which a sequence is read back wrongly.
struct Behind {
  const Snapshot* command = nullptr;  // null: several may have done it
  bool is_to_it = false;              // to this sequence
  bool shares = false;  // shares tokens with the sequence that the command
                        // changes
};

// The commands since each sequence was last read back correctly.
class CommandsSinceRead {
 public:
  explicit CommandsSinceRead(int64_t sequences)
      : since_(static_cast<size_t>(sequences)) {}

  // It must outlive this.
  void play(const Snapshot& snapshot) {
    if (snapshot.command.verb == StoryVerb::kAttend) return;
    for (std::vector<const Snapshot*>& one : since_) one.push_back(&snapshot);
  }
  void is_right(int64_t sequence) {
    since_[static_cast<size_t>(sequence)].clear();
  }
  Behind behind(int64_t sequence, const TokensHeld& held) const {
    const auto& since = since_[static_cast<size_t>(sequence)];
    if (since.size() != 1) return {};
    const StoryCommand& command = since[0]->command;
    const int64_t of = changed_sequence(command);
    const bool is_to_it = of == sequence || command.verb == StoryVerb::kReorder;
    return {since[0], is_to_it, !is_to_it && held.are_sharing(of, sequence)};
  }

 private:
  std::vector<std::vector<const Snapshot*>> since_;
};

std::string_view doing(StoryVerb verb) {
  switch (verb) {
    case StoryVerb::kAppend:
    case StoryVerb::kStep:
      return "appending to";
    case StoryVerb::kTruncate:
      return "truncating";
    case StoryVerb::kEvict:
      return "evicting from";
    case StoryVerb::kReset:
      return "a reset of";
    case StoryVerb::kFork:
      return "a fork of";
    default:
      return "a reorder of";
  }
}

// Which tokens are wrong after which command, the most specific fact first.
// `of_old`: the command appended none of them.
Facts facts_of_command(const Behind& behind, bool of_old) {
  if (behind.command == nullptr || (behind.is_to_it && !of_old)) return {};
  const StoryVerb verb = behind.command->command.verb;
  const std::string does(doing(verb));
  Facts facts;
  if (behind.is_to_it) {
    if (verb == StoryVerb::kFork)
      facts.emplace_back("the copy of a fork holds other tokens");
    else
      facts.push_back(does + " a sequence changes tokens that it held before");
    return facts;
  }
  for (const std::string& who :
       {does + " one sequence", std::string("a command to one sequence")}) {
    const std::string what = who + " changes tokens of another";
    if (behind.shares) facts.push_back(what + " that shares some with it");
    facts.push_back(what);
  }
  return facts;
}

// The same for any sequence.
Facts facts_of_any_command(const Behind& behind, bool of_old) {
  if (behind.command == nullptr || (behind.is_to_it && !of_old)) return {};
  return {std::string(doing(behind.command->command.verb)) +
              " a sequence changes tokens that it or another holds",
          "a command changes tokens that a sequence holds"};
}

constexpr const char* kOfNone = "what no token was given";
constexpr const char* kOfNoneOfIts = "those of no token of the sequence";
constexpr const char* kOfNoneInItsHead =
    "those of no token of the sequence in their kv head";
constexpr const char* kOfAnother = "those of another token";

// These are less informative than the command that did it.
bool is_weak(const std::string& said) {
  return said == kOfNone || said == kOfNoneOfIts || said == kOfNoneInItsHead ||
         said == kOfAnother;
}

// Keeps in `common` what is also in `here`; nullopt: all of `here`.
void keep_common(const Facts& here, std::optional<Facts>& common) {
  if (!common) common = here;
  std::erase_if(*common,
                [&](const std::string& one) { return !shows(here, one); });
}

// Facts about sequences that are read back after one command: the contents of
// wrong rows, and what the command does to its own sequence, to others, and to
// either.
struct StorageFacts {
  Facts rows, weak_rows, own, others, any;

  // Adds the facts of one more sequence.
  void add(const StorageFacts& beside) {
    std::optional<Facts> common = std::move(rows), weak = std::move(weak_rows);
    keep_common(beside.rows, common);
    keep_common(beside.weak_rows, weak);
    rows = std::move(*common);
    weak_rows = std::move(*weak);
    for (const auto part :
         {&StorageFacts::own, &StorageFacts::others, &StorageFacts::any})
      if ((this->*part).empty()) this->*part = beside.*part;
  }

  // The most specific first: the fact that a command changes another sequence
  // is more informative than the new contents.
  Facts in_order() const {
    Facts out;
    for (const auto part :
         {&StorageFacts::others, &StorageFacts::rows, &StorageFacts::own,
          &StorageFacts::any, &StorageFacts::weak_rows})
      out.insert(out.end(), (this->*part).begin(), (this->*part).end());
    return out;
  }
};

// The tokens of all sequences, and those that they ever held.
class HeldTokens : public TokensHeld {
 public:
  void play(const Snapshot& snapshot) {
    if (snapshot.command.verb == StoryVerb::kAttend) return;
    TokensHeld::play(snapshot);
    for (int64_t s = 0; s < sequences(); ++s)
      ever_[s].insert(of(s).begin(), of(s).end());
    brought_.insert(snapshot.history.begin(), snapshot.history.end());
  }
  bool has_held(int64_t sequence, const Token& token) const {
    const auto found = ever_.find(sequence);
    return found != ever_.end() && found->second.contains(token);
  }
  // All that the cache was given.
  const std::set<Token>& brought() const { return brought_; }

 private:
  std::map<int64_t, std::set<Token>> ever_;
  std::set<Token> brought_;
};

// The rows of a story's tokens in its inputs, and those that were read back.
class ReadBack {
 public:
  ReadBack(const Case& value, const Inputs& own, const Snapshot& snapshot,
           const CallOutcome& read, const HeldTokens& held,
           const Behind& behind)
      : s_(value.shape),
        own_(own),
        history_(snapshot.history),
        sequence_(snapshot.command.sequence),
        held_(held),
        behind_(behind),
        k_(as_doubles(read.stage_k, Dtype::kF32)),
        v_(as_doubles(read.stage_v, Dtype::kF32)) {}

  bool is_known() const {
    const auto rows = static_cast<size_t>(s_.Hkv * tokens());
    return rows > 0 && k_.size() == rows * static_cast<size_t>(s_.d) &&
           v_.size() == rows * static_cast<size_t>(s_.dv);
  }

  // Facts that hold for every wrong row, the most specific first. Nullopt: no
  // row is wrong.
  std::optional<StorageFacts> facts() const {
    std::optional<Facts> common;
    bool of_keys = false, of_values = false, of_new = false;
    for (const bool keys : {true, false})
      for (int64_t h = 0; h < s_.Hkv; ++h)
        for (int64_t t = 0; t < tokens(); ++t) {
          const Token right = history_[static_cast<size_t>(t)];
          if (holds(keys, h, t, h, right)) continue;
          (keys ? of_keys : of_values) = true;
          of_new |= is_new(right);
          keep_common(said_of(keys, h, t), common);
        }
    if (!common) return std::nullopt;
    const std::string which = of_keys && of_values ? "keys and values"
                              : of_keys            ? "keys"
                                                   : "values";
    StorageFacts out;
    for (const std::string& one : *common)
      (is_weak(one) ? out.weak_rows : out.rows)
          .push_back("the wrong " + which + " that are read back are " + one);
    (behind_.is_to_it ? out.own : out.others) =
        facts_of_command(behind_, !of_new);
    out.any = facts_of_any_command(behind_, !of_new);
    return out;
  }

 private:
  int64_t tokens() const { return std::ssize(history_); }

  // Whether the last command appended it.
  bool is_new(const Token& token) const {
    const Snapshot* one = behind_.command;
    return one != nullptr && token.sequence == one->command.sequence &&
           token.tag >= one->first_new &&
           token.tag < one->first_new + one->new_tokens;
  }

  const double* stored(bool keys, int64_t h, int64_t t) const {
    const int64_t width = keys ? s_.d : s_.dv;
    return (keys ? k_ : v_).data() + (h * tokens() + t) * width;
  }
  const double* given(bool keys, int64_t h, const Token& token) const {
    const int64_t width = keys ? s_.d : s_.dv;
    return (keys ? own_.k : own_.v).data() +
           ((token.sequence * s_.Hkv + h) * s_.Tk + token.tag) * width;
  }
  // Whether the row of head h at place t is the key (`as_key`) or value of this
  // token for that head.
  bool holds(bool keys, int64_t h, int64_t t, bool as_key, int64_t of_head,
             const Token& token) const {
    if (token.sequence < 0 || token.sequence >= s_.B || token.tag < 0 ||
        token.tag >= s_.Tk || (keys != as_key && s_.d != s_.dv))
      return false;
    const double* row = stored(keys, h, t);
    return std::equal(row, row + (keys ? s_.d : s_.dv),
                      given(as_key, of_head, token));
  }
  bool holds(bool keys, int64_t h, int64_t t, int64_t of_head,
             const Token& token) const {
    return holds(keys, h, t, keys, of_head, token);
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
    say(is_at(history_, t + 1), "those of the token after");
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
    say(is_at(held_.before(sequence_), t),
        "the content of their place before the last command");
    const auto is_held = [&](const Token& token) {
      return std::find(history_.begin(), history_.end(), token) !=
             history_.end();
    };
    bool of_own = false, of_lost = false, of_other = false, of_head = false;
    bool of_any = false, of_any_own = false;  // key or value, of any head
    for (const Token& token : held_.brought()) {
      for (int64_t other = 0; other < s_.Hkv; ++other) {
        const bool is_of_head = holds(keys, h, t, other, token);
        of_head |= other != h && is_of_head;
        const bool is_of_it =
            is_of_head || holds(keys, h, t, !keys, other, token);
        of_any |= is_of_it;
        of_any_own |= is_of_it && is_held(token);
      }
      if (!holds(keys, h, t, h, token)) continue;
      of_own |= is_held(token);
      of_lost |= !is_held(token) && held_.has_held(sequence_, token);
      of_other |= !is_held(token);
    }
    say(of_own, "those of another token of the sequence");
    say(of_lost, "those of a token that the sequence holds no more");
    say(of_other, "those of a token that the sequence does not hold");
    say(of_own || of_other, kOfAnother);
    say(of_head, "those of another kv head");
    const double* row = stored(keys, h, t);
    const double* end = row + (keys ? s_.d : s_.dv);
    say(std::all_of(row, end, [](double x) { return x == 0; }), "zeros");
    say(!of_any, kOfNone);
    say(!of_any_own, kOfNoneOfIts);
    say(!of_own, kOfNoneInItsHead);
    return said;
  }

  const Shape& s_;
  const Inputs& own_;
  const std::vector<Token>& history_;
  int64_t sequence_;
  const HeldTokens& held_;
  const Behind& behind_;
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
  HeldTokens held;
  CommandsSinceRead since(value.shape.B);
  std::optional<StorageFacts> wrong;
  for (size_t n = 0; n < evidence.outcomes.size(); ++n) {
    const PlannedCall& planned = plan.calls[n];
    if (!planned.snapshot || !planned.snapshot->illegal.empty() ||
        planned.operation == Operation::kCacheCreate)
      continue;
    if (planned.operation != Operation::kCacheReadBack) {
      if (wrong && planned.snapshot->command.verb != StoryVerb::kAttend) break;
      held.play(*planned.snapshot);
      since.play(*planned.snapshot);
      continue;
    }
    if (evidence.outcomes[n].status != CallStatus::kDone) break;
    const int64_t sequence = planned.snapshot->command.sequence;
    const Behind behind = since.behind(sequence, held);
    const ReadBack read(value, own, *planned.snapshot, evidence.outcomes[n],
                        held, behind);
    if (!read.is_known()) break;
    const auto here = read.facts();
    if (!here)
      since.is_right(sequence);
    else if (wrong)
      wrong->add(*here);
    else
      wrong = here;
  }
  return wrong ? std::optional(wrong->in_order()) : std::nullopt;
}

bool shows(const Facts& facts, const std::string& fact) {
  return std::find(facts.begin(), facts.end(), fact) != facts.end();
}

Facts common_facts(const std::vector<Facts>& cases) {
  std::optional<Facts> common;
  for (const Facts& facts : cases) keep_common(facts, common);
  return common.value_or(Facts{});
}

}  // namespace qkvet::diagnosis
