// SPDX-License-Identifier: Apache-2.0
// Bookkeeping: after every command of a story the reported length of each
// sequence must be the sum of its commands.
#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_length_grows {

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  StoryEdits edits;
  edits.needs_truth = false;
  add_story(value, value.story, kernel, edits, plan);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t i = 0; i < input.calls.size(); ++i) {
    const CallView& call = input.calls[i];
    const auto wrong = wrong_length(*call.planned->snapshot, *call.outcome);
    judgement.compared += static_cast<int64_t>(
        wrong ? wrong->sequence + 1 : call.planned->snapshot->lengths.size());
    if (!wrong) continue;
    Finding finding;
    finding.call = i;
    finding.where = "call " + std::to_string(i) + ", " + command_place(call) +
                    ": length of sequence " +
                    static_cast<char>('a' + static_cast<int>(wrong->sequence));
    finding.expected = std::to_string(wrong->expected);
    finding.actual = std::to_string(wrong->actual);
    add_failure(judgement, std::move(finding));
    return judgement;
  }
  return judgement;
}

}  // namespace of_cache_length_grows

extern constinit const Law cache_length_grows{
    "cache_length_grows",
    "The length of a sequence grows by what is appended to it, shrinks by what "
    "is truncated, and no other length moves.",
    "length(s) after a command = |history(s)|",
    "a story of legal commands",
    "The length is the number of tokens that the history holds.",
    "Nothing is rounded: lengths are integers.",
    "(a) it is exact",
    10,
    Domain{.subject = Subject::kCache, .allows = kAllowForms},
    constrain_to_legal,
    of_cache_length_grows::plan,
    of_cache_length_grows::judge};

}  // namespace qkvet::properties
