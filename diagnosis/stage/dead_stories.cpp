// SPDX-License-Identifier: Apache-2.0
// The stage of caches with stories that end their process. A process does not
// end where memory was damaged: a page that was copied too far, or freed twice,
// ends some later command. So the story is repeated with as many tokens in
// every sequence, but without commands that move, share or remove them. If that
// ends as well, it is repeated with tokens that are appended without queries:
// the process ends in these appends, or when the tokens are read back.
#include <algorithm>

#include "diagnosis/evidence/stories.h"
#include "diagnosis/instead/collector.h"
#include "diagnosis/stage/further_stage.h"
#include "properties/judging/subject.h"
#include "properties/sequences/played_story.h"

namespace qkvet::diagnosis {
namespace {

constexpr int kMostStories = 16;
constexpr int kFewestDead = 3, kEnoughDead = 6;

bool is_of_tokens(const StoryCommand& command) {
  return command.verb == StoryVerb::kAppend || command.verb == StoryVerb::kStep;
}

// A story with the same lengths at every command that appends tokens, or longer
// ones: tokens from other sequences are appended instead. `all_appended`:
// without their own queries. Nullopt: no valid story.
std::optional<Case> with_tokens_of_its_own(Case value, bool all_appended) {
  const std::vector<Snapshot> played = snapshots_of(value);
  std::vector<int64_t> has(static_cast<size_t>(value.shape.B), 0);
  Story story;
  const auto bring = [&](StoryVerb verb, size_t s, int64_t count) {
    if (count < 1) return;
    story.push_back({verb, static_cast<int64_t>(s), count});
    has[s] += count;
  };
  for (size_t n = 0; n < played.size(); ++n) {
    const Snapshot& one = played[n];
    if (!one.illegal.empty()) continue;
    if (is_of_tokens(one.command)) {
      const auto s = static_cast<size_t>(one.command.sequence);
      bring(all_appended ? StoryVerb::kAppend : one.command.verb, s,
            one.command.count);
    }
    for (size_t s = 0; s < has.size() && s < one.lengths.size(); ++s)
      bring(StoryVerb::kAppend, s, one.lengths[s] - has[s]);
  }
  if (story.empty()) return std::nullopt;
  value.capacity =
      std::max(value.capacity, *std::max_element(has.begin(), has.end()));
  return with_queries_behind(value, std::move(story));
}

bool moves_tokens(const Story& story) {
  return std::any_of(story.begin(), story.end(), [](const StoryCommand& one) {
    return !is_of_tokens(one) && one.verb != StoryVerb::kAttend;
  });
}

// `kDeadInAppend`: before any query.
enum class Ending : uint8_t { kUnknown, kRight, kWrong, kDead, kDeadInAppend };

Ending ending_of(const Law& law, const Case& value, Witness& witness) {
  const auto evidence = witness.ask(law, value, begin_new_process);
  if (evidence == nullptr || evidence->is_empty_handed())
    return Ending::kUnknown;
  if (!evidence->failed()) return Ending::kRight;
  if (evidence->judgement.kind != FailureKind::kCrash &&
      evidence->judgement.kind != FailureKind::kMemory)
    return Ending::kWrong;
  for (size_t n = 0; n < evidence->outcomes.size(); ++n)
    if (evidence->outcomes[n].status != CallStatus::kDone)
      return evidence->calls[n].operation == Operation::kCacheStep &&
                     evidence->calls[n].shape.Tq == 0
                 ? Ending::kDeadInAppend
                 : Ending::kDead;
  return Ending::kDead;
}

// Whether reading back ends the process, and no command does so before any
// query.
bool is_dead_in_read_back(const Case& value, Witness& witness) {
  static const Law* const law = find_law("cache_stores_what_it_is_given");
  const auto evidence = witness.ask(*law, value, begin_new_process);
  if (evidence == nullptr) return false;
  for (size_t n = 0; n < evidence->outcomes.size(); ++n) {
    const KernelCall& call = evidence->calls[n];
    const CallStatus status = evidence->outcomes[n].status;
    if (status == CallStatus::kCrash || status == CallStatus::kFault)
      return call.operation == Operation::kCacheReadBack;
    const bool has_queries =
        call.operation == Operation::kCacheStep && call.shape.Tq > 0;
    if (status != CallStatus::kDone || has_queries) return false;
  }
  return false;
}

bool is_dead(Ending ending) {
  return ending == Ending::kDead || ending == Ending::kDeadInAppend;
}

// The stage that ends this story; kUnknown: some other stage. Nullopt: not
// known.
std::optional<Stage> stage_of_end(const Law& law, const Case& value,
                                  Witness& witness) {
  const auto own = with_tokens_of_its_own(value, /*all_appended=*/false);
  const Ending without_moves =
      own ? ending_of(law, *own, witness) : Ending::kUnknown;
  if (without_moves == Ending::kUnknown) return std::nullopt;
  if (without_moves == Ending::kRight)
    return moves_tokens(value.story) ? Stage::kMoved : Stage::kUnknown;
  if (!is_dead(without_moves)) return Stage::kUnknown;
  const auto appended = with_tokens_of_its_own(value, /*all_appended=*/true);
  return appended &&
                 (ending_of(law, *appended, witness) == Ending::kDeadInAppend ||
                  is_dead_in_read_back(*appended, witness))
             ? Stage::kWritten
             : Stage::kUnknown;
}

}  // namespace

Stage stage_of_dead_stories(const Failure& failure, const FailsWhere& where,
                            Witness& witness) {
  const Law& agrees = agreement_about(Subject::kCache);
  Collector collector(witness, kMostAnswers, kMostStories);
  collector.ask(failure.smallest);
  collector.ask_with_commands_of(*failure.law, failure.smallest);
  ask_fresh(failure, where, kStageSeed, kMostStories, collector);
  Stage stage = Stage::kUnknown;
  int dead = 0;
  for (const Touch& touch : collector.touches()) {
    if (dead == kEnoughDead) break;
    if (!is_dead(ending_of(agrees, touch.value, witness))) continue;
    const auto here = stage_of_end(agrees, touch.value, witness);
    if (!here) continue;
    if (*here == Stage::kUnknown || (dead > 0 && *here != stage))
      return Stage::kUnknown;
    stage = *here;
    ++dead;
  }
  return dead >= kFewestDead ? stage : Stage::kUnknown;
}

}  // namespace qkvet::diagnosis
