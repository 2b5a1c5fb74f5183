// SPDX-License-Identifier: Apache-2.0
// Every matrix picks: each column is 1 at one row and 0 elsewhere. Then every
// element of q, k and v is a known element of x, and every element of y is a
// known element of attention's result, unchanged.
#include <cmath>

#include "core/base/half.h"
#include "properties/calls/layer_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_split_and_merge_place_every_element {

// Integers that all storage types hold, different from their neighbours.
constexpr int64_t kDifferent = 251;

// The row that column `column` picks. q, k, v and o pick differently, so that
// none can be taken for another.
int64_t picked(TensorName matrix, int64_t column, int64_t rows) {
  const auto shift =
      static_cast<int64_t>(matrix) - static_cast<int64_t>(TensorName::kWq);
  return (column + shift) % rows;
}

void pick(const Case& value, int64_t, Inputs& inputs) {
  std::vector<double>& x = inputs.values(TensorName::kX);
  for (size_t n = 0; n < x.size(); ++n)
    x[n] = static_cast<double>(1 + static_cast<int64_t>(n) % kDifferent);
  for (const TensorName matrix :
       {TensorName::kWq, TensorName::kWk, TensorName::kWv, TensorName::kWo}) {
    const auto extents = tensor_extents(value.shape, matrix);
    std::vector<double>& w = inputs.values(matrix);
    std::fill(w.begin(), w.end(), 0.0);
    for (int64_t column = 0; column < extents[1]; ++column)
      w[static_cast<size_t>(picked(matrix, column, extents[0]) * extents[1] +
                            column)] = 1;
  }
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  if (!returns_stages(kernel)) {
    plan.unsupported = "the layer returns no stages";
    return plan;
  }
  PlannedCall call = layer_call(kernel);
  call.edit = pick;
  plan.calls.push_back(call);
  return plan;
}

void compare_split(const JudgeInput& input, Judgement& judgement) {
  const CallView& call = input.calls[0];
  const int64_t D = input.value.shape.D, T = input.value.shape.Tq;
  const std::vector<double>& x = call.inputs->values(TensorName::kX);
  const std::pair<TensorName, TensorName> stages[] = {
      {TensorName::kStageQ, TensorName::kWq},
      {TensorName::kStageK, TensorName::kWk},
      {TensorName::kStageV, TensorName::kWv}};
  for (const auto& [stage, matrix] : stages) {
    const Grid grid(input.value.shape, stage);
    compare_exactly(
        input, call, stage,
        [&, w = matrix](const Element& at) {
          const int64_t from = picked(w, at.h * grid.width() + at.x, D);
          return x[static_cast<size_t>((at.b * T + at.i) * D + from)];
        },
        judgement);
  }
}

void compare_merge(const JudgeInput& input, Judgement& judgement) {
  const CallView& call = input.calls[0];
  const Shape& s = input.value.shape;
  const Grid grid(s, TensorName::kAttended);
  const std::vector<double> attended =
      read_output(input, call, TensorName::kAttended);
  compare_exactly(
      input, call, TensorName::kY,
      [&](const Element& at) {
        const int64_t from = picked(TensorName::kWo, at.x, s.H * s.dv);
        const Element one = {TensorName::kAttended, at.b, from / s.dv, at.i,
                             from % s.dv};
        return round_to(input.value.o_dtype, attended[grid.index(one)]);
      },
      judgement);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_split(input, judgement);
  if (judgement.verdict != Verdict::kFailed) compare_merge(input, judgement);
  return judgement;
}

}  // namespace of_split_and_merge_place_every_element

extern constinit const Law split_and_merge_place_every_element{
    "split_and_merge_place_every_element",
    "Splitting into heads and merging them are inverse and put every element "
    "where it belongs.",
    "q[b,h,t,c] = (x W_Q)[b,t,hd+c]; y = merged W_O; each W picks single "
    "elements",
    "the layer returns its stages; no biases",
    "A column with a single 1 copies one element.",
    "One product by 1 and sums with 0 are exact; only y is rounded, once.",
    "(a) it is exact",
    20,
    Domain{.subject = Subject::kLayer, .free_data = false},
    fit_own_data,
    of_split_and_merge_place_every_element::plan,
    of_split_and_merge_place_every_element::judge};

}  // namespace qkvet::properties
