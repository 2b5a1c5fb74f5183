// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/permutations.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_permuted_heads_permute_output {

void permute(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  permute_heads(value, s.group(), s.Tq * s.d, inputs.q);
  permute_heads(value, 1, s.Tk * s.d, inputs.k);
  permute_heads(value, 1, s.Tk * s.dv, inputs.v);
}

Case constrain(Case value) { return with_two_kv_heads(std::move(value)); }

Plan plan(const Case&, const KernelInfo& kernel) {
  return plan_pair(kernel, permute);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "heads in order";
  pair.second_name = "heads permuted";
  pair.map = [&](const Element& at) {
    Element to = at;
    to.h = place_of_head(input.value, at.h);
    return std::optional(to);
  };
  pair.looks = "where a head stands decides what it computes";
  compare_as_claimed(input, pair, QKVET_FLAG_HEAD_ORDER_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_permuted_heads_permute_output

extern constinit const Law permuted_heads_permute_output{
    "permuted_heads_permute_output",
    "Heads permuted together permute the output: no head is special.",
    "forward(P q, P k, P v) = P forward(q, k, v), P over heads",
    "two key/value heads; no sink, slopes or mask per head",
    "Every head is computed by the same formula from its own data.",
    "Bit for bit where the kernel declares head_order_invariant; else "
    "each side within its own bound.",
    "(d) it needs no oracle: a wrong map from query heads to key/value "
    "heads does not commute with permutations",
    220,
    Domain{.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_LENGTHS |
                     QKVET_OPTION_PACKED | QKVET_OPTION_SOFTCAP |
                     kOptionLayout | kAllowServing},
    of_permuted_heads_permute_output::constrain,
    of_permuted_heads_permute_output::plan,
    of_permuted_heads_permute_output::judge};

}  // namespace qkvet::properties
