// SPDX-License-Identifier: Apache-2.0
// Quantised storage moves an answer by far more than arithmetic does. The cache
// answers from the values that it reads back afterwards: compared with
// attention over those, only the bound of the arithmetic is left.
#include <cmath>

#include "properties/judging/answer.h"
#include "properties/judging/compare.h"
#include "properties/sequences/story_calls.h"
#include "properties/sequences/story_storage.h"

namespace qkvet::properties {
namespace of_cache_answers_from_what_it_stores {

Case constrain(Case value) {
  if (value.cache.stored == StoredAs::kAsGiven)
    value.cache.stored = StoredAs::kInt8PerToken;
  return constrain_to_legal(std::move(value));
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan story, plan;
  StoryEdits edits;
  edits.want_lse = wants_lse(kernel);
  edits.needs_truth = false;
  add_story(value, value.story, kernel, edits, story);
  for (PlannedCall& call : story.calls) {
    const Snapshot snapshot = *call.snapshot;
    plan.calls.push_back(std::move(call));
    if (snapshot.queries > 0)
      add_read_back(snapshot, snapshot.command.sequence, plan);
  }
  if (!kernel.has_read_back) plan.unsupported = "read_back is not offered";
  if (!declares_stored(kernel.cache_options, value.cache.stored))
    plan.unsupported = "quantised storage is not declared";
  if ((kernel.cache_options & QKVET_CACHE_READ_BACK_COMPUTES) != 0)
    plan.unsupported = "read_back() computes, and not from codes alone";
  return plan;
}

// The values read back are codes times a scale, rounded once. A kernel that
// multiplies the query, the weight or the sum by the scale, and uses the codes
// without it, rounds elsewhere: one rounding for that, and products that may be
// flushed.
std::vector<double> errors_of_scaled(const CacheForm& form,
                                     const PrecisionModel& model,
                                     const std::vector<double>& values) {
  std::vector<double> errors;
  for (const double value : values)
    errors.push_back(2 * model.u * (1 + model.u) * std::fabs(value) +
                     2 * form.largest_code() * 0x1p-126);
  return errors;
}

void compare(const JudgeInput& input, const CallView& step,
             const CallView& read, Judgement& judgement) {
  const Case value = step_case(input.value, *step.planned->snapshot);
  const Inputs inputs = stored_inputs(
      input.value, *step.planned->snapshot, *step.inputs, *read.outcome,
      (input.kernel.cache_options & QKVET_CACHE_NEW_AS_GIVEN) != 0);
  const OwnedProblem owned(value, inputs,
                           reading_of(value, input.kernel.dialect));
  const PrecisionModel model =
      for_storage(input.model, input.value.kv_dtype, input.value.o_dtype);
  const CacheForm& form = input.value.cache;
  const auto k_error = errors_of_scaled(form, model, inputs.k);
  const auto v_error = errors_of_scaled(form, model, inputs.v);
  Answer answer(owned.problem(), plain_forward, /*with_twin=*/false,
                {nullptr, k_error.data(), v_error.data()});
  CallView call = step;
  call.truth = &answer.truth_for(input.kernel, model, /*want_weights=*/false);
  compare_answer(input, call, call_number(input, step), judgement);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  for (size_t i = 0; i + 1 < input.calls.size(); ++i) {
    const CallView& read = input.calls[i + 1];
    if (read.planned->operation != Operation::kCacheReadBack) continue;
    // Tokens that its first query saw may be gone after the step, dropped by a
    // window.
    if (!is_all_kept(input.value.cache, *input.calls[i].planned->snapshot))
      continue;
    compare(input, input.calls[i], read, judgement);
    if (judgement.verdict == Verdict::kFailed) break;
  }
  return judgement;
}

}  // namespace of_cache_answers_from_what_it_stores

extern constinit const Law cache_answers_from_what_it_stores{
    "cache_answers_from_what_it_stores",
    "A quantised cache answers with attention over the numbers that it reads "
    "back, or over new tokens as they came where it declares that.",
    "attend(s, q) = attention(q, read_back(s))",
    "a story of legal commands; quantised storage, and read_back()",
    "The numbers that are read back are those that a query finds.",
    "The bound of attention over them, which may be off by one rounding of "
    "code times scale: where the scale is multiplied is the kernel's own.",
    "(b) it is tighter than the bound about what was given",
    120,
    Domain{.subject = Subject::kCache,
           .allows = kAllowForms,
           .about = kOptionStored},
    of_cache_answers_from_what_it_stores::constrain,
    of_cache_answers_from_what_it_stores::plan,
    of_cache_answers_from_what_it_stores::judge};

}  // namespace qkvet::properties
