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
double before(const JudgeInput& input, TensorName tensor, int64_t row,
              int64_t c) {
  const Inputs& inputs = *input.calls[0].inputs;
  const Shape& s = input.value.shape;
  const auto place =
      static_cast<size_t>(place_of_state(s, row / s.H, row % s.H, 0));
  if (tensor == TensorName::kO)
    return inputs.v[place * static_cast<size_t>(s.dv) + static_cast<size_t>(c)];
  return round_to(lse_dtype(input.value.o_dtype),
                  inputs.bias[place] * lse_unit(input.kernel));
}

void compare_row(const JudgeInput& input, TensorName tensor, int64_t row,
                 const std::vector<double>& actual, int64_t width,
                 Judgement& judgement) {
  for (int64_t c = 0; c < width; ++c) {
    const int64_t n = row * width + c;
    auto finding = compare_exactly(
        actual[static_cast<size_t>(n)], before(input, tensor, row, c),
        tensor == TensorName::kO ? input.value.o_dtype
                                 : lse_dtype(input.value.o_dtype),
        judgement);
    if (!finding) continue;
    finding->where = element_name(tensor, input.value.shape, n);
    finding->looks = "a row with 0 in row_mask is merged";
    add_failure(judgement, std::move(*finding));
  }
}

// Rows that stay, bit for bit, and rows that are merged, within their bound.
Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  const Shape& s = input.value.shape;
  const Dtype dtype = input.value.o_dtype;
  const std::vector<double> o = as_doubles(call.outcome->o, dtype);
  const std::vector<double> lse =
      as_doubles(call.outcome->lse, lse_dtype(dtype));
  Truth merged = *call.truth;
  for_each_head(s, [&](int64_t t, int64_t h) {
    if (call.inputs->row_mask[static_cast<size_t>(t)] != 0) return;
    const int64_t row = t * s.H + h;
    compare_row(input, TensorName::kO, row, o, s.dv, judgement);
    compare_row(input, TensorName::kLse, row, lse, 1, judgement);
    merged.oracle.visible[static_cast<size_t>(row)] = kRowNotCounted;
  });
  if (judgement.verdict == Verdict::kFailed) return judgement;
  CallView view = call;
  view.truth = &merged;
  compare_with_truth(input, view, TensorName::kO, judgement);
  compare_with_truth(input, view, TensorName::kLse, judgement);
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
