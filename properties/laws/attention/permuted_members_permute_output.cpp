// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/calls/call_pairs.h"
#include "properties/calls/permutations.h"

namespace qkvet::properties {
namespace of_permuted_members_permute_output {

void permute(const Case& value, int64_t, Inputs& inputs) {
  for (std::vector<double>* tensor : {&inputs.q, &inputs.k, &inputs.v})
    permute_members(value, *tensor);
  if (value.member_slopes) permute_members(value, inputs.slopes);
}

Case constrain(Case value) {
  value.shape.B = std::max<int64_t>(value.shape.B, 2);
  return value;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  return plan_pair(kernel, permute);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "members in order";
  pair.second_name = "members permuted";
  pair.map = [&](const Element& at) {
    Element to = at;
    to.b = place_of_member(input.value, at.b);
    return std::optional(to);
  };
  pair.looks = "where a batch member stands decides what it computes";
  // With pages, another order of members is another place of their tokens.
  const uint64_t places =
      input.value.paging.size > 0 ? QKVET_FLAG_PAGE_PLACEMENT_INVARIANT : 0;
  compare_as_claimed(input, pair, QKVET_FLAG_BATCH_INVARIANT | places,
                     judgement);
  return judgement;
}

}  // namespace of_permuted_members_permute_output

extern constinit const Law permuted_members_permute_output{
    "permuted_members_permute_output",
    "Batch members permuted permute the output: no member is special.",
    "forward(P q, P k, P v) = P forward(q, k, v), P over the batch",
    "two batch members; no mask or lengths per member",
    "Every member is computed by the same formula from its own data.",
    "Bit for bit where the kernel declares batch_invariant, and in pages "
    "page_placement_invariant; else each side within its own bound.",
    "(d) it needs no oracle",
    230,
    Domain{.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_SOFTCAP |
                     QKVET_OPTION_SINK | QKVET_OPTION_ALIBI | kOptionLayout |
                     kAllowServing},
    of_permuted_members_permute_output::constrain,
    of_permuted_members_permute_output::plan,
    of_permuted_members_permute_output::judge};

}  // namespace qkvet::properties
