// SPDX-License-Identifier: Apache-2.0
#include "properties/logs/log_shrink.h"

#include <algorithm>
#include <set>

#include "properties/calls/story_calls.h"
#include "properties/checking/simpler.h"
#include "properties/conventions/domain.h"
#include "properties/run/shrink.h"

namespace qkvet::properties {
namespace {

constexpr int kMaxTries = 4000;
// Commands of all tries together: some twenty seconds.
constexpr size_t kMaxTriedCommands = 1'000'000;
// A try that hangs takes at least two seconds.
constexpr int kMaxHangingTries = 1;
constexpr int kRepeats = 3;
// Up to this number a try checks every answer, beyond it only that of its last
// command. An earlier failure is shorter, and only then worth the time.
constexpr size_t kAllAnswers = 1000;

class Shrinker {
 public:
  Shrinker(const StoryLog& log, const LogFailure& found,
           const LogKernel& kernel)
      : log_(log),
        kernel_(kernel),
        commands_(log.commands.begin(),
                  log.commands.begin() + static_cast<ptrdiff_t>(found.at) + 1),
        failure_(found),
        sequences_(log.geometry.shape.B) {}

  ShrunkLog shrink();

 private:
  bool runs_out(const LogCommands& commands) const;
  std::optional<LogFailure> failure_of(const LogCommands& commands,
                                       int64_t sequences);
  bool fails(LogCommands commands, int64_t sequences);
  bool fails(LogCommands commands) {
    return fails(std::move(commands), sequences_);
  }
  LogCommands without_ids(const std::set<int64_t>& ids) const;
  std::vector<int64_t> other_ids() const;
  std::set<int64_t> unrelated_ids() const;
  template <class Count, class Without>
  void thin(Count count, Without without);
  void lower_sequences();
  void lower_numbers();
  bool lower(size_t at, const LogCommand& next);
  void spell(ShrunkLog& shrunk);

  const StoryLog& log_;
  const LogKernel& kernel_;
  LogCommands commands_;
  LogFailure failure_;
  int64_t sequences_;  // of the cache
  int tries_ = 0;
  size_t tried_commands_ = 0;
};

bool Shrinker::runs_out(const LogCommands& commands) const {
  const bool hangs = failure_.judgement.kind == FailureKind::kHang;
  return tries_ >= (hangs ? kMaxHangingTries : kMaxTries) ||
         tried_commands_ + commands.size() > kMaxTriedCommands;
}

// The failure of these commands, if they fail like the recording did.
std::optional<LogFailure> Shrinker::failure_of(const LogCommands& commands,
                                               int64_t sequences) {
  LogChecks checks;
  checks.every = commands.size() <= kAllAnswers ? 1 : 0;
  checks.sequences = sequences;
  LogRun run = run_log(log_, commands, kernel_, checks);
  tried_commands_ += run.commands;
  const bool alike = run.failure && run.failure->part == failure_.part &&
                     run.failure->judgement.kind == failure_.judgement.kind;
  return alike ? std::move(run.failure) : std::nullopt;
}

// Whether these commands fail in the same way; they are then the best ones.
// Without the resets of others an id may have a place outside of the cache.
bool Shrinker::fails(LogCommands commands, int64_t sequences) {
  if (commands.empty() || runs_out(commands)) return false;
  sequences = std::max(sequences, places_needed(commands));
  if (sequences > std::max(sequences_, kMostSequences)) return false;
  ++tries_;
  auto failure = failure_of(commands, sequences);
  if (!failure) return false;
  commands.resize(failure->at + 1);
  commands_ = std::move(commands);
  failure_ = std::move(*failure);
  sequences_ = sequences;
  return true;
}

LogCommands Shrinker::without_ids(const std::set<int64_t>& ids) const {
  LogCommands kept;
  for (const LogCommand& command : commands_) {
    LogCommand rest = command;
    std::erase_if(rest.moves, [&](const auto& move) {
      return ids.contains(move.first) || ids.contains(move.second);
    });
    if (command.verb == StoryVerb::kReorder) {
      if (rest.moves.empty()) continue;
      rest.id = rest.moves.front().first;
    } else if (ids.contains(command.id) || (command.verb == StoryVerb::kFork &&
                                            ids.contains(command.count))) {
      continue;
    }
    kept.push_back(std::move(rest));
  }
  return kept;
}

// All but that of the failing command.
std::vector<int64_t> Shrinker::other_ids() const {
  std::set<int64_t> ids;
  for (const LogCommand& command : commands_)
    for_each_id(command, [&](int64_t id) { ids.insert(id); });
  ids.erase(commands_.back().id);
  return {ids.begin(), ids.end()};
}

// Sequences from which no token came to the failing command's sequence by forks
// and reorders.
std::set<int64_t> Shrinker::unrelated_ids() const {
  std::set<int64_t> related;
  for_each_id(commands_.back(), [&](int64_t id) { related.insert(id); });
  for (size_t i = commands_.size(); i-- > 0;) {
    const LogCommand& command = commands_[i];
    if (command.verb == StoryVerb::kFork && related.contains(command.count))
      related.insert(command.id);
    for (const auto& [to, from] : command.moves)
      if (related.contains(to)) related.insert(from);
  }
  std::set<int64_t> unrelated;
  for (const int64_t id : other_ids())
    if (!related.contains(id)) unrelated.insert(id);
  return unrelated;
}

// Removes runs of things as long as the rest fails: half of them at once, a
// quarter, ..., one. `without` gives the commands without the things [from,
// end) of count().
template <class Count, class Without>
void Shrinker::thin(Count count, Without without) {
  for (size_t size = std::max<size_t>(count() / 2, 1);; size /= 2) {
    bool again = true;
    while (again) {
      again = false;
      for (size_t end = count(); end > 0;) {
        const size_t from = end > size ? end - size : 0;
        if (fails(without(from, end))) again = size == 1;
        end = std::min(from, count());
      }
    }
    if (size == 1) return;
  }
}

// As few sequences as the commands need; or the few more that a mistake needs,
// which may only show in an unused one.
void Shrinker::lower_sequences() {
  const int64_t needed = places_needed(commands_);
  for (int64_t n = needed; n < sequences_ && n <= needed + 2; ++n)
    if (fails(commands_, n)) return;
}

// Replaces command `at`. A second try shifts later truncations and evictions by
// the tokens that the append loses.
bool Shrinker::lower(size_t at, const LogCommand& next) {
  LogCommands less = commands_;
  const int64_t taken = less[at].count - next.count;
  less[at] = next;
  if (fails(less)) return true;
  if (!appends(next.verb)) return false;
  for (size_t i = at + 1; i < less.size(); ++i) {
    int64_t& place =
        less[i].verb == StoryVerb::kTruncate ? less[i].count : less[i].first;
    place = std::max<int64_t>(place - taken, 0);
  }
  return fails(std::move(less));
}

void Shrinker::lower_numbers() {
  for (size_t i = 0; i < commands_.size(); ++i)
    for (bool again = true; again && i < commands_.size();) {
      const LogCommand now = commands_[i];
      again = now.verb != StoryVerb::kFork &&
              try_lower(now,
                        [&](const LogCommand& less) { return lower(i, less); });
    }
}

// As a case, under the first law that sees the failure.
void Shrinker::spell(ShrunkLog& shrunk) {
  const auto value =
      case_of_log(log_, commands_, sequences_, kernel_.judged.info);
  if (!value) return;
  std::vector<const Law*> laws = {find_law(
      failure_.part == LogPart::kLength    ? "cache_length_grows"
      : failure_.part == LogPart::kRefusal ? "cache_refuses_illegal_calls"
                                           : "cache_agrees_with_history")};
  for (const Law* law : all_laws())
    if (law != laws[0] && law->domain.subject == Subject::kCache)
      laws.push_back(law);
  for (const Law* law : laws) {
    const Case fit = constrained(*law, *value);
    const Judgement judgement =
        check_case(*law, fit, kernel_.judged, kernel_.index, kernel_.executor,
                   /*with_twin=*/false, kernel_.time);
    if (judgement.verdict != Verdict::kFailed ||
        judgement.kind != failure_.judgement.kind)
      continue;
    Shrunk smallest = qkvet::properties::shrink(*law, fit, judgement,
                                                kernel_.judged, kernel_.index,
                                                kernel_.executor, kernel_.time);
    shrunk.law = law;
    shrunk.value = std::move(smallest.value);
    shrunk.judgement = std::move(smallest.judgement);
    return;
  }
}

ShrunkLog Shrinker::shrink() {
  ShrunkLog shrunk;
  const bool hangs = failure_.judgement.kind == FailureKind::kHang;
  shrunk.repeats = hangs ? 0 : kRepeats;
  for (int i = 0; i < shrunk.repeats; ++i)
    shrunk.repeats_failed += failure_of(commands_, sequences_).has_value();
  if (shrunk.repeats_failed == shrunk.repeats) {
    tried_commands_ = 0;
    fails(without_ids(unrelated_ids()));
    lower_sequences();
    thin([&] { return other_ids().size(); },
         [&](size_t from, size_t end) {
           const auto ids = other_ids();
           return without_ids({ids.begin() + static_cast<ptrdiff_t>(from),
                               ids.begin() + static_cast<ptrdiff_t>(end)});
         });
    // The last command is the one that fails.
    thin([&] { return commands_.size() - 1; },
         [&](size_t from, size_t end) {
           LogCommands rest = commands_;
           rest.erase(rest.begin() + static_cast<ptrdiff_t>(from),
                      rest.begin() + static_cast<ptrdiff_t>(end));
           return rest;
         });
    lower_sequences();
    lower_numbers();
    spell(shrunk);
  }
  shrunk.commands = std::move(commands_);
  shrunk.failure = std::move(failure_);
  return shrunk;
}

}  // namespace

std::optional<Case> case_of_log(const StoryLog& log,
                                const LogCommands& commands, int64_t sequences,
                                const KernelInfo& kernel) {
  Case value = log.geometry;
  value.shape.B = std::max(sequences, places_needed(commands));
  if (value.shape.B > kMostSequences || commands.size() > kMostCommands)
    return std::nullopt;
  value.story.clear();
  LogPlayer player(story_rules(value, kernel));
  for (const LogCommand& command : commands) {
    const Snapshot snapshot = player.play(command).snapshot;
    value.story.push_back(snapshot.command);
    // In a case the capacity is hard, whatever the kernel does with it.
    for (const int64_t length : snapshot.lengths)
      value.capacity = std::max(value.capacity, length);
  }
  constrain_extents_to_story(value);
  const bool valid =
      invalid_reason(value).empty() && to_string(value).size() <= kMaxCaseText;
  return valid ? std::optional(value) : std::nullopt;
}

ShrunkLog shrink_log(const StoryLog& log, const LogFailure& found,
                     const LogKernel& kernel) {
  return Shrinker(log, found, kernel).shrink();
}

}  // namespace qkvet::properties
