// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/call_pairs.h"
#include "properties/calls/permutations.h"

namespace qkvet::properties {
namespace of_permuted_keys_change_nothing {

void permute(const Case& value, int64_t, Inputs& inputs) {
  permute_keys(value, value.shape.d, inputs.k);
  permute_keys(value, value.shape.dv, inputs.v);
}

Case constrain(Case value) {
  value.causal = Causal::kNone;
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  return value;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan = plan_pair(kernel, permute);
  for (PlannedCall& call : plan.calls)
    call.want_weights = wants_weights(kernel);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "keys in order";
  pair.second_name = "keys permuted";
  pair.map = [&](const Element& at) {
    Element to = at;
    if (at.tensor == TensorName::kWeights)
      to.x = place_of_key(input.value, at.x);
    return std::optional(to);
  };
  pair.looks = "where a key stands decides what it is worth";
  compare_within_bounds(
      input, pair, judgement,
      {TensorName::kO, TensorName::kLse, TensorName::kWeights});
  return judgement;
}

}  // namespace of_permuted_keys_change_nothing

extern constinit const Law permuted_keys_change_nothing{
    "permuted_keys_change_nothing",
    "Without a mask the order of the keys is nothing: keys and values "
    "permuted together give the same.",
    "forward(q, P k, P v) = forward(q, k, v)",
    "nothing depends on positions; at least two keys",
    "Sums over keys do not depend on their order.",
    "Each side is within its own bound of the same number; never "
    "bitwise.",
    "(d) it needs no oracle: it kills what oracle and kernel get wrong "
    "alike",
    210,
    Domain{.allows = QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK | kAllowMemory},
    of_permuted_keys_change_nothing::constrain,
    of_permuted_keys_change_nothing::plan,
    of_permuted_keys_change_nothing::judge};

}  // namespace qkvet::properties
