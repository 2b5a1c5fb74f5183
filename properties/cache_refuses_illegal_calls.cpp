// SPDX-License-Identifier: Apache-2.0
// After every command of a story the cache is asked for what it must refuse.
// Each refusal needs a reason, and nothing may have changed: the lengths, and
// the answers of the rest of the story, which sees no NaN although every
// illegal append brings nothing else.
#include <algorithm>

#include "properties/compare.h"
#include "properties/law.h"
#include "properties/story_calls.h"

namespace qkvet {
namespace {

// What the cache must refuse now, in the words of a story.
void add_illegal(const Case& value, const KernelInfo& kernel, int64_t s,
                 int64_t length, EditedStory& story) {
  if ((kernel.cache_options & QKVET_CACHE_GROWS) == 0)
    story.insert({StoryVerb::kAppend, s, value.capacity - length + 1});
  story.insert({StoryVerb::kAttend, s, length + 1});
  if (kernel.has_truncate) story.insert({StoryVerb::kTruncate, s, length + 1});
  if (value.shape.B < kMostSequences) {
    story.insert({StoryVerb::kStep, value.shape.B, 1});
    story.insert({StoryVerb::kReset, value.shape.B, 0});
  }
}

// Steps that contradict the configuration, which no story can spell, in front
// of the last command.
void add_contradictions(Plan& plan) {
  PlannedCall wrong = plan.calls.back();
  wrong.operation = Operation::kCacheStep;
  wrong.expects_refusal = true;
  wrong.needs_truth = wrong.want_lse = false;
  Moment& moment = *wrong.moment;
  moment.lengths = plan.calls[plan.calls.size() - 2].moment->lengths;
  moment.command = {StoryVerb::kAppend, moment.command.sequence, 1};
  moment.queries = 0;
  moment.first_new = -1;
  std::vector<PlannedCall> contradictions;
  for (const Mistake mistake : {Mistake::kKeyWidth, Mistake::kValueAbsent}) {
    wrong.mistake = mistake;
    moment.new_tokens = 1;
    contradictions.push_back(wrong);
  }
  wrong.mistake = Mistake::kNone;
  moment.command.count = moment.new_tokens = 0;  // nothing at all
  contradictions.push_back(wrong);
  plan.calls.insert(plan.calls.end() - 1, contradictions.begin(),
                    contradictions.end());
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  EditedStory story;
  std::vector<int64_t> lengths(static_cast<size_t>(value.shape.B), 0);
  for (const Moment& moment : play_story(
           value.story, {value.shape.B, value.capacity, false, value.cache})) {
    const int64_t s = moment.command.sequence;
    story.keep(moment.command);
    lengths = moment.lengths;
    add_illegal(value, kernel, s, lengths[static_cast<size_t>(s)], story);
  }
  for (int64_t s = 0; s < value.shape.B; ++s)
    if (const int64_t length = lengths[static_cast<size_t>(s)]; length > 0)
      story.keep({StoryVerb::kAttend, s, length});
  Plan plan = story.plan(value, kernel);
  add_contradictions(plan);
  return plan;
}

// "" or what is wrong with how an illegal call ended.
std::string bad_ending(const CallOutcome& outcome) {
  if (outcome.status != CallStatus::kRefused) return "accepted";
  return outcome.gave_reason ? "" : "refused without a reason";
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t i = 0; i < input.calls.size(); ++i) {
    const CallView& call = input.calls[i];
    const Moment& moment = *call.planned->moment;
    if (!call.planned->expects_refusal) continue;
    Finding finding;
    finding.call = i;
    finding.where = "call " + std::to_string(i) + ", " + command_place(call);
    judgement.compared += 2;
    finding.expected = "refused with a reason";
    if (!moment.illegal.empty()) finding.expected += ": " + moment.illegal;
    finding.actual = bad_ending(*call.outcome);
    if (finding.actual.empty()) {
      if (call.outcome->lengths == moment.lengths) continue;
      finding.expected = "the lengths as before";
      finding.actual = "another length after the refusal";
    }
    add_failure(judgement, std::move(finding));
    return judgement;
  }
  compare_edited_story(input, judgement);
  return judgement;
}

}  // namespace

extern constinit const Law cache_refuses_illegal_calls{
    "cache_refuses_illegal_calls",
    "What cannot be done is refused with a reason and changes nothing.",
    "illegal command: error, length and later answers as without it",
    "a story of legal commands, each followed by illegal ones",
    "An error that is no error, or half an append, makes later answers wrong "
    "where nobody looks.",
    "Refusals are exact; answers are each within their own bound.",
    "(c) it reaches error paths, which no legal call enters",
    Aim{.subject = Subject::kCache, .admits = kAdmitRope},
    fit_to_legal,
    plan,
    judge};

}  // namespace qkvet
