// SPDX-License-Identifier: Apache-2.0
// With W_O = 0 the heads have no effect: y is the bias, exactly.
#include <algorithm>

#include "properties/calls/layer_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_output_projection_is_applied {

void no_output(const Case&, int64_t, Inputs& inputs) {
  std::vector<double>& w_o = inputs.values(TensorName::kWo);
  std::fill(w_o.begin(), w_o.end(), 0.0);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const CallView& call = input.calls[0];
  const std::vector<double>& b_o = call.inputs->values(TensorName::kBo);
  compare_exactly(
      input, call, TensorName::kY,
      [&](const Element& at) {
        return b_o.empty() ? 0 : b_o[static_cast<size_t>(at.x)];
      },
      judgement);
  return judgement;
}

}  // namespace of_output_projection_is_applied

extern constinit const Law output_projection_is_applied{
    "output_projection_is_applied",
    "W_O mixes the heads: with W_O = 0 the output is b_O, or 0.",
    "W_O = 0: y = b_O",
    "what attention gives is finite",
    "The heads reach y through W_O alone.",
    "Products with 0 and sums with 0 are exact.",
    "(a) it is exact",
    50,
    Domain{.subject = Subject::kLayer, .free_data = false},
    constrain_layer,
    plan_one_call<of_output_projection_is_applied::no_output>,
    of_output_projection_is_applied::judge};

}  // namespace qkvet::properties
