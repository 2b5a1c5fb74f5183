// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/other_data.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_other_heads_change_nothing {

int64_t kept_one(const Case& value) {
  return pick_by_seed(value.seed, value.shape.Hkv);
}

void other_data(const Case& value, int64_t, Inputs& inputs) {
  const int64_t kept = kept_one(value);
  put_other_data(
      value, [&](int64_t, int64_t kv) { return kv != kept; }, inputs);
}

Case constrain(Case value) { return with_two_kv_heads(std::move(value)); }

Plan plan(const Case&, const KernelInfo& kernel) {
  return plan_same_rows(kernel, other_data);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const int64_t kept = kept_one(input.value);
  CallPair pair;
  pair.first_name = "before";
  pair.second_name = "after the others changed";
  pair.map = [&](const Element& at) {
    return at.h / input.value.shape.group() == kept ? std::optional(at)
                                                    : std::nullopt;
  };
  pair.looks = "data of another head reaches this one";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_other_heads_change_nothing

extern constinit const Law other_heads_change_nothing{
    "other_heads_change_nothing",
    "Other heads change nothing: other data in all other key/value heads "
    "and their query heads leaves a head's output as it is.",
    "o[h] = f(q[h], k[h / group], v[h / group])",
    "two key/value heads",
    "The other heads do not occur in the formula of a head.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    100,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing},
    of_other_heads_change_nothing::constrain,
    of_other_heads_change_nothing::plan,
    of_other_heads_change_nothing::judge};

}  // namespace qkvet::properties
