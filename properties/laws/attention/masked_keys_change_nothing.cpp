// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_masked_keys_change_nothing {

// Eight times a normal: scores and values that would show.
void other_hidden_keys(const Case& value, int64_t row, Inputs& inputs) {
  const Recipe recipe{RecipeKind::kLargeN, 3};
  const auto d = static_cast<size_t>(value.shape.d);
  const auto dv = static_cast<size_t>(value.shape.dv);
  const Inputs before = inputs;
  for_each_hidden_key(value, before, row, [&](int64_t n) {
    const auto at = static_cast<size_t>(n);
    recipe_row(recipe, ~value.seed, TensorName::kK, 0, 0, n,
               {inputs.k.data() + at * d, d});
    recipe_row(recipe, ~value.seed, TensorName::kV, 0, 0, n,
               {inputs.v.data() + at * dv, dv});
  });
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  return plan_hidden_keys(value, kernel, other_hidden_keys);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "as it was";
  pair.second_name = "other K and V at keys that the row does not see";
  pair.map = only_row(input.value.shape, input.calls[1].planned->argument);
  pair.looks = "the row depends on keys that it must not see";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_masked_keys_change_nothing

extern constinit const Law masked_keys_change_nothing{
    "masked_keys_change_nothing",
    "Keys that a row does not see change nothing of it: other finite K and V "
    "there leave the row as it is.",
    "o[i] = f(q[i], k[j], v[j] : j visible to i)",
    "a row sees one key and not another",
    "Hidden keys do not occur in the formula of the row.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    330,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing | QKVET_OPTION_KEY_LISTS |
                     QKVET_OPTION_SEGMENTS | QKVET_OPTION_CHUNK |
                     QKVET_OPTION_TREE_MASK,
           .about = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW},
    with_hidden_keys,
    of_masked_keys_change_nothing::plan,
    of_masked_keys_change_nothing::judge};

}  // namespace qkvet::properties
