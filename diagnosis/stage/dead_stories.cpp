// SPDX-License-Identifier: Apache-2.0
// The stage of caches whose stories end their process. Where a process ends is
// not where memory was damaged: a page that was copied too far, or given back
// twice, ends some later command. So a story is told again with as many tokens
// in every sequence, but with nothing that moves, shares or takes them away.
#include <algorithm>

#include "diagnosis/evidence/stories.h"
#include "diagnosis/instead/collector.h"
#include "diagnosis/stage/further_stage.h"
#include "properties/judging/subject.h"

namespace qkvet::diagnosis {
namespace {

constexpr int kMostStories = 16;
constexpr int kFewestDead = 3, kEnoughDead = 6;

bool is_of_tokens(const StoryCommand& command) {
  return command.verb == StoryVerb::kAppend || command.verb == StoryVerb::kStep;
}

// The same lengths at every command that brings tokens, or longer ones: what a
// sequence has from another is appended to it. Nothing: it moves none anyway,
// or is no valid story.
std::optional<Case> with_tokens_of_its_own(Case value) {
  const std::vector<Snapshot> played =
      play_story(value.story,
                 {value.shape.B, value.capacity, /*grows=*/false, value.cache});
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
      bring(one.command.verb, s, one.command.count);
    }
    for (size_t s = 0; s < has.size() && s < one.lengths.size(); ++s)
      bring(StoryVerb::kAppend, s, one.lengths[s] - has[s]);
  }
  const bool moves = std::any_of(
      value.story.begin(), value.story.end(), [](const StoryCommand& one) {
        return !is_of_tokens(one) && one.verb != StoryVerb::kAttend;
      });
  if (!moves || story.empty()) return std::nullopt;
  value.capacity =
      std::max(value.capacity, *std::max_element(has.begin(), has.end()));
  return with_queries_behind(value, std::move(story));
}

enum class Ending : uint8_t { kUnknown, kRight, kWrong, kDead };

Ending ending_of(const Law& law, const Case& value, Witness& witness) {
  if (!invalid_reason(value).empty()) return Ending::kUnknown;
  auto evidence = witness.prepare(law, value);
  if (evidence != nullptr && !evidence->calls.empty())
    evidence->calls[0].new_process = true;
  evidence = witness.ask(std::move(evidence));
  if (evidence == nullptr || evidence->is_empty_handed())
    return Ending::kUnknown;
  if (!evidence->failed()) return Ending::kRight;
  return evidence->judgement.kind == FailureKind::kCrash ||
                 evidence->judgement.kind == FailureKind::kMemory
             ? Ending::kDead
             : Ending::kWrong;
}

}  // namespace

Stage stage_of_dead_stories(const Failure& failure, const FailsWhere& where,
                            const KernelUnderTest& kernel, Witness& witness) {
  const Law& agrees = agreement_about(Subject::kCache);
  Collector collector(kernel, witness, kMostAnswers, kMostStories);
  collector.ask(failure.smallest);
  collector.ask_with_commands_of(*failure.law, failure.smallest);
  ask_fresh(failure, where, kStageSeed, kMostStories, collector);
  int dead = 0;
  for (const Touch& touch : collector.touches()) {
    if (dead == kEnoughDead) break;
    const auto own = with_tokens_of_its_own(touch.value);
    // What ends so without any move is another thing.
    if (!own) return Stage::kUnknown;
    if (ending_of(agrees, touch.value, witness) != Ending::kDead) continue;
    const Ending without = ending_of(agrees, *own, witness);
    if (without == Ending::kUnknown) continue;
    if (without != Ending::kRight) return Stage::kUnknown;
    ++dead;
  }
  return dead >= kFewestDead ? Stage::kMoved : Stage::kUnknown;
}

}  // namespace qkvet::diagnosis
