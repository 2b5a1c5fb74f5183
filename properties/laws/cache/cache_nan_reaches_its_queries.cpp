// SPDX-License-Identifier: Apache-2.0
// One token of NaN is appended before the last queries of the story: each of
// them that sees it is NaN. Keys and values of the token are NaN in all
// channels, so that no weight is near 0 and no row of one key has another
// value.
#include <algorithm>
#include <cmath>
#include <limits>

#include "properties/judging/compare.h"
#include "properties/judging/law.h"
#include "properties/sequences/story_calls.h"

namespace qkvet::properties {
namespace of_cache_nan_reaches_its_queries {

// The token is inserted before this command: the last one with queries.
size_t place_of(const Case& value) {
  for (size_t n = value.story.size(); n-- > 0;)
    if (value.story[n].verb == StoryVerb::kStep ||
        value.story[n].verb == StoryVerb::kAttend)
      return n;
  return value.story.size();
}

// A command with queries, and capacity for the token.
Case constrain(Case value) {
  value = constrain_to_legal(std::move(value));
  int64_t longest = 0;
  for (const Snapshot& snapshot : snapshots_of(value))
    for (const int64_t length : snapshot.lengths)
      longest = std::max(longest, length);
  if (place_of(value) == value.story.size()) {
    if (value.story.size() == kMostCommands) value.story.pop_back();
    value.story.push_back({StoryVerb::kStep, 0, 1});
    constrain_extents_to_story(value);
    ++longest;
  }
  value.capacity = std::max(value.capacity, longest + 1);
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  if (kernel.dialect.visible_nan == QKVET_VISIBLE_NAN_MAY_VANISH)
    plan.unsupported = "the kernel declares that a visible NaN may vanish";
  const size_t place = place_of(value);
  Story story = value.story;
  StoryEdits edits;
  edits.want_lse = wants_lse(kernel);
  edits.needs_truth = false;
  edits.inserted.assign(story.size() + 1, false);
  if (place == story.size()) return plan;
  edits.inserted[place] = true;
  story.insert(story.begin() + static_cast<ptrdiff_t>(place),
               {StoryVerb::kAppend, story[place].sequence, 1});
  add_story(value, story, kernel, edits, plan);
  const bool legal = std::none_of(
      plan.calls.begin(), plan.calls.end(),
      [](const PlannedCall& call) { return call.expects_refusal; });
  if (!legal) plan.not_applicable = "one more token makes a command illegal";
  return plan;
}

// Whether query `i` of the step sees a token of NaN.
bool sees_nan(const Case& value, const Snapshot& snapshot, int64_t i) {
  const auto tokens = static_cast<int64_t>(snapshot.history.size());
  for (int64_t j = 0; j < tokens; ++j)
    if (snapshot.history[static_cast<size_t>(j)].tag < 0 &&
        j <= tokens - snapshot.queries + i &&
        value.cache.sees(tokens - snapshot.queries + i, j))
      return true;
  return false;
}

void judge_tensor(const JudgeInput& input, const CallView& call,
                  TensorName tensor, Judgement& judgement) {
  const bool is_o = tensor == TensorName::kO;
  const Snapshot& snapshot = *call.planned->snapshot;
  const Dtype dtype =
      is_o ? input.value.o_dtype : lse_dtype(input.value.o_dtype);
  const std::vector<double> actual =
      as_doubles(is_o ? call.outcome->o : call.outcome->lse, dtype);
  const int64_t width = is_o ? input.value.shape.dv : 1;
  for (size_t n = 0; n < actual.size(); ++n) {
    const int64_t row = static_cast<int64_t>(n) / width;
    if (!sees_nan(input.value, snapshot, row % snapshot.queries)) continue;
    ++judgement.compared;
    if (std::isnan(actual[n])) continue;
    Finding finding;
    finding.where = command_place(call) + ", row " +
                    std::to_string(row % snapshot.queries) + " of head " +
                    std::to_string(row / snapshot.queries);
    finding.expected = "nan: the row sees a token of NaN";
    finding.actual = number_text(actual[n], dtype);
    finding.ratio = std::numeric_limits<double>::infinity();
    finding.call = call_number(input, call);
    finding.looks = "NaN in the cache vanishes on its way";
    add_failure(judgement, std::move(finding));
    return;
  }
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (const CallView& call : input.calls) {
    if (call.planned->operation != Operation::kCacheStep ||
        call.planned->snapshot->queries == 0)
      continue;
    judge_tensor(input, call, TensorName::kO, judgement);
    judge_tensor(input, call, TensorName::kLse, judgement);
  }
  return judgement;
}

}  // namespace of_cache_nan_reaches_its_queries

extern constinit const Law cache_nan_reaches_its_queries{
    "cache_nan_reaches_its_queries",
    "A token of NaN in a cache reaches every query that sees it.",
    "k[j] = v[j] = nan, i sees j => o[i] = nan, lse[i] = nan",
    "a story of legal commands with a query after the token; no codes and no "
    "mask; the kernel does not declare that NaN may vanish",
    "A sum with NaN in it is NaN, and so is its exponential.",
    "Nothing is rounded: a number is NaN or it is not.",
    "(a) it is exact, (c) it reaches what agreement never draws",
    95,
    Domain{.subject = Subject::kCache,
           .allows = kAllowForms & ~(kOptionStored | QKVET_OPTION_MASK)},
    of_cache_nan_reaches_its_queries::constrain,
    of_cache_nan_reaches_its_queries::plan,
    of_cache_nan_reaches_its_queries::judge};

}  // namespace qkvet::properties
