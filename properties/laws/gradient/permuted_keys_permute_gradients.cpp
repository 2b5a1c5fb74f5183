// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/gradient_calls.h"
#include "properties/calls/permutations.h"

namespace qkvet::properties {
namespace of_permuted_keys_permute_gradients {

void permute(const Case& value, int64_t, Inputs& inputs) {
  permute_keys(value, value.shape.d, inputs.k);
  permute_keys(value, value.shape.dv, inputs.v);
  if ((value.score_bias_own & kOwnK) != 0) permute_keys(value, 1, inputs.bias);
}

Case constrain(Case value) {
  value.causal = Causal::kNone;
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  return value;
}

Plan plan(const Case&, const KernelInfo&) {
  Plan plan;
  plan.calls = {backward_call(/*truth=*/true),
                backward_call(/*truth=*/true, permute)};
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "keys in order";
  pair.second_name = "keys permuted";
  pair.map = [&](const Element& at) {
    Element to = at;
    if (at.tensor == TensorName::kDK || at.tensor == TensorName::kDV)
      to.i = place_of_key(input.value, at.i);
    if (at.tensor == TensorName::kDBias) to.x = place_of_key(input.value, at.x);
    return std::optional(to);
  };
  pair.looks = "where a key stands decides what its gradient is";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_permuted_keys_permute_gradients

extern constinit const Law permuted_keys_permute_gradients{
    "permuted_keys_permute_gradients",
    "Without a mask keys and values permuted together permute dk, dv and the "
    "columns of dbias, and leave dq and dsink.",
    "dk(P k, P v) = P dk(k, v), dv alike, dq(P k, P v) = dq(k, v)",
    "nothing depends on positions; at least two keys",
    "Every key adds the same term to the loss, wherever it stands.",
    "Each side is within its own bound of the same number; never bitwise: dq "
    "is a sum over keys.",
    "(d) it needs no oracle: it kills what oracle and kernel get wrong alike",
    50,
    Domain{.subject = Subject::kBackward,
           .allows = QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP |
                     QKVET_OPTION_SINK | kOptionLayout},
    of_permuted_keys_permute_gradients::constrain,
    of_permuted_keys_permute_gradients::plan,
    of_permuted_keys_permute_gradients::judge};

}  // namespace qkvet::properties
