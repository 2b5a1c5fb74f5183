// SPDX-License-Identifier: Apache-2.0
// After every command of a story the cache gets calls that it must refuse. Each
// refusal needs a reason, and nothing may have changed: the lengths, and the
// answers of the rest of the story, which sees no NaN although every illegal
// append only has NaN.
#include <algorithm>

#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_refuses_illegal_calls {

// Commands that go further back than the window was made for.
void add_too_far_back(const CacheForm& form, int64_t s, int64_t length,
                      int64_t most, bool truncates, EditedStory& story) {
  if (form.window == 0) return;
  const int64_t kept = most - form.rollback - 1;
  if (truncates && kept >= 0) story.insert({StoryVerb::kTruncate, s, kept});
  if (kept >= 1) story.insert({StoryVerb::kAttend, s, length - kept + 1});
}

// Commands that the cache must refuse now, as part of a story.
void add_illegal(const Case& value, const KernelInfo& kernel,
                 const Snapshot& snapshot, EditedStory& story) {
  const int64_t s = snapshot.command.sequence;
  const int64_t length = snapshot.lengths[static_cast<size_t>(s)];
  if ((kernel.cache_options & QKVET_CACHE_GROWS) == 0)
    story.insert({StoryVerb::kAppend, s, value.capacity - length + 1});
  story.insert({StoryVerb::kAttend, s, length + 1});
  if (kernel.has_truncate) {
    story.insert({StoryVerb::kTruncate, s, length + 1});
    story.insert({StoryVerb::kTruncate, s, -1});
  }
  if (kernel.has_evict) {
    story.insert({StoryVerb::kEvict, s, 1, {}, -1});
    story.insert({StoryVerb::kEvict, s, 1, {}, length});
    story.insert({StoryVerb::kEvict, s, length + 1});
    // A window forgets by itself.
    if (value.cache.window > 0 && length > 0)
      story.insert({StoryVerb::kEvict, s, 1});
  }
  add_too_far_back(value.cache, s, length,
                   snapshot.most[static_cast<size_t>(s)], kernel.has_truncate,
                   story);
  const int64_t absent = value.shape.B;
  if (absent == kMostSequences) return;
  story.insert({StoryVerb::kStep, absent, 1});
  story.insert({StoryVerb::kReset, absent, 0});
  if (kernel.has_evict) story.insert({StoryVerb::kEvict, absent, 1});
  if (kernel.has_fork) {
    story.insert({StoryVerb::kFork, s, absent});
    story.insert({StoryVerb::kFork, absent, s});
  }
  if (!kernel.has_reorder) return;
  std::string parents(static_cast<size_t>(absent), 'a');
  parents.back() = static_cast<char>('a' + absent);
  story.insert({StoryVerb::kReorder, 0, 0, parents});
}

// Adds steps before the last command that contradict the configuration, which
// no story can spell.
void add_contradictions(Plan& plan) {
  PlannedCall wrong = plan.calls.back();
  wrong.operation = Operation::kCacheStep;
  wrong.expects_refusal = true;
  wrong.needs_truth = wrong.want_lse = false;
  Snapshot& snapshot = *wrong.snapshot;
  snapshot.lengths = plan.calls[plan.calls.size() - 2].snapshot->lengths;
  snapshot.command = {StoryVerb::kAppend, snapshot.command.sequence, 1};
  snapshot.queries = 0;
  snapshot.first_new = -1;
  std::vector<PlannedCall> contradictions;
  for (const Mistake mistake : {Mistake::kKeyWidth, Mistake::kValueAbsent}) {
    wrong.mistake = mistake;
    snapshot.new_tokens = 1;
    contradictions.push_back(wrong);
  }
  wrong.mistake = Mistake::kNone;
  snapshot.command.count = snapshot.new_tokens = 0;  // an empty step
  contradictions.push_back(wrong);
  plan.calls.insert(plan.calls.end() - 1, contradictions.begin(),
                    contradictions.end());
}

// How many of the last queries a sequence can have.
int64_t askable(const CacheForm& form, int64_t length, int64_t most) {
  const int64_t behind = form.rollback + 1 - (most - length);
  return form.window == 0 ? length : std::min(length, behind);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  EditedStory story;
  Snapshot last;
  for (const Snapshot& snapshot : snapshots_of(value)) {
    story.keep(snapshot.command);
    add_illegal(value, kernel, snapshot, story);
    last = snapshot;
  }
  for (size_t s = 0; s < last.lengths.size(); ++s)
    if (const int64_t length = last.lengths[s]; length > 0)
      story.keep({StoryVerb::kAttend, static_cast<int64_t>(s),
                  askable(value.cache, length, last.most[s])});
  Plan plan = story.plan(value, kernel);
  add_contradictions(plan);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t i = 0; i < input.calls.size(); ++i) {
    const CallView& call = input.calls[i];
    const Snapshot& snapshot = *call.planned->snapshot;
    if (!call.planned->expects_refusal) continue;
    Finding finding;
    finding.call = i;
    finding.where = "call " + std::to_string(i) + ", " + command_place(call);
    judgement.compared += 2;
    finding.expected = "refused with a reason";
    if (!snapshot.illegal.empty()) finding.expected += ": " + snapshot.illegal;
    finding.actual = bad_refusal(snapshot.command, *call.outcome);
    if (finding.actual.empty()) {
      if (call.outcome->lengths == snapshot.lengths) continue;
      finding.expected = "the lengths as before";
      finding.actual = "another length after the refusal";
    }
    add_failure(judgement, std::move(finding));
    return judgement;
  }
  compare_edited_story(input, judgement);
  return judgement;
}

}  // namespace of_cache_refuses_illegal_calls

extern constinit const Law cache_refuses_illegal_calls{
    "cache_refuses_illegal_calls",
    "An illegal operation is refused with a reason and changes nothing.",
    "illegal command: error, length and later answers as without it",
    "a story of legal commands, each followed by illegal ones",
    "An operation that fails silently, or half an append, makes later answers "
    "wrong.",
    "Refusals are exact; answers are each within their own bound.",
    "(c) it reaches error paths, which no legal call enters",
    20,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_refuses_illegal_calls::plan,
    of_cache_refuses_illegal_calls::judge};

}  // namespace qkvet::properties
