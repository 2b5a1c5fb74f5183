// SPDX-License-Identifier: Apache-2.0
// Causality by perturbation: two calls that differ only in K and V at keys that
// the first rows must not see. Those rows must not change by a single bit (+0
// and -0 count as one). The new values are finite and overflow nothing, so no
// rule about masked NaN or Inf is involved.
#include <string>

#include "properties/calls/call_pairs.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_future_changes_nothing {

// plan() sees to it that there is a row with masked keys.
int64_t last_row(const Case& value) {
  return pick_by_seed(value.seed, rows_with_masked_keys(value));
}

void other_future(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const int64_t from = visible_keys(value, last_row(value));
  // Eight times a normal: scores and values that would show.
  const Recipe recipe{RecipeKind::kLargeN, 3};
  const uint64_t seed = ~value.seed;
  const auto d = static_cast<size_t>(s.d), dv = static_cast<size_t>(s.dv);
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.Hkv; ++h)
      for (int64_t t = from; t < s.Tk; ++t) {
        const auto row = static_cast<size_t>((b * s.Hkv + h) * s.Tk + t);
        recipe_row(recipe, seed, TensorName::kK, b, h, t,
                   {inputs.k.data() + row * d, d});
        recipe_row(recipe, seed, TensorName::kV, b, h, t,
                   {inputs.v.data() + row * dv, dv});
      }
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  if (rows_with_masked_keys(value) == 0) {
    Plan plan;
    plan.not_applicable = "the case masks no key: it needs causal and Tk > 1";
    return plan;
  }
  return plan_same_rows(kernel, other_future);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const int64_t last = last_row(input.value);
  const std::string after = "after K and V changed at keys >= " +
                            std::to_string(visible_keys(input.value, last));
  CallPair pair;
  pair.first_name = "before";
  pair.second_name = after.c_str();
  pair.map = [&](const Element& at) {
    return at.i <= last ? std::optional(at) : std::nullopt;
  };
  pair.looks = "the row depends on keys that it must not see";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_future_changes_nothing

extern constinit const Law future_changes_nothing{
    "future_changes_nothing",
    "The future changes nothing: other K and V at keys that a row must not "
    "see leave its output as it is.",
    "o[i] = f(q[i], k[j], v[j] : j visible to i)",
    "causal, with at least one masked key",
    "Masked keys do not occur in the formula of the row.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    80,
    Domain{.causal = true,
           .allows = QKVET_OPTION_ROPE | kAllowScores | kOptionLayout |
                     kAllowServing},
    with_masked_key,
    of_future_changes_nothing::plan,
    of_future_changes_nothing::judge};

}  // namespace qkvet::properties
