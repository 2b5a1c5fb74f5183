// SPDX-License-Identifier: Apache-2.0
#include "core/base/half.h"
#include "properties/calls/merge_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_rows_left_out_of_a_merge_stay {

Case constrain(Case value) {
  value = constrain_merge(std::move(value), 2);
  value.o_dtype = value.kv_dtype;
  return value;
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  plan.calls.push_back(merge_call());
  plan.calls[0].in_place = plan.calls[0].masks_rows = true;
  return plan;
}

// The number before the merge, as it was stored.
double before(const JudgeInput& input, const Element& at) {
  const Inputs& inputs = *input.calls[0].inputs;
  const Shape& s = input.value.shape;
  const auto place = static_cast<size_t>(place_of_state(s, at.b, at.h, 0));
  if (at.tensor == TensorName::kO)
    return inputs
        .v[place * static_cast<size_t>(s.dv) + static_cast<size_t>(at.x)];
  return round_to(lse_dtype(input.value.o_dtype),
                  inputs.bias[place] * lse_unit(input.kernel));
}

// Rows that stay, bit for bit, and rows that are merged, within their bound.
Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  const auto is_merged = [&](int64_t t) {
    return call.inputs->row_mask[static_cast<size_t>(t)] != 0;
  };
  for (const TensorName tensor : kOAndLse)
    compare_exactly(
        input, call, tensor,
        [&](const Element& at) {
          return is_merged(at.b) ? std::nullopt
                                 : std::optional(before(input, at));
        },
        judgement, "a row with 0 in row_mask is merged");
  if (judgement.verdict == Verdict::kFailed) return judgement;
  Truth merged = *call.truth;
  const Shape& s = input.value.shape;
  for_each_head(s, [&](int64_t t, int64_t h) {
    if (!is_merged(t))
      merged.oracle.visible[static_cast<size_t>(t * s.H + h)] = kRowNotCounted;
  });
  CallView view = call;
  view.truth = &merged;
  for (const TensorName tensor : kOAndLse)
    compare_with_truth(input, view, tensor, judgement);
  return judgement;
}

}  // namespace of_rows_left_out_of_a_merge_stay

extern constinit const Law rows_left_out_of_a_merge_stay{
    "rows_left_out_of_a_merge_stay",
    "In place, rows that row_mask leaves out stay as they are, and all others "
    "are merged.",
    "row_mask[t] = 0: (o, lse)[t] stays, bit for bit",
    "two states; as many of every row; o is stored as states are",
    "A row that is not merged is not written.",
    "Rows that are left out keep their bits; merged rows are within their "
    "bound.",
    "(a) it is bitwise, (c) it reaches calls that no other law makes",
    110,
    Domain{.subject = Subject::kMerge, .allows = kAllowMerge},
    of_rows_left_out_of_a_merge_stay::constrain,
    of_rows_left_out_of_a_merge_stay::plan,
    of_rows_left_out_of_a_merge_stay::judge};

}  // namespace qkvet::properties
