// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "properties/option_forms.h"

namespace qkvet {
namespace {

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

Case fit(Case value) {
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 2);
  // Whole rows that are hidden say nothing here.
  if (value.mask.kind == MaskKind::kEmptyRowN)
    value.mask.kind = MaskKind::kButN;
  const bool limits =
      value.window && std::max(value.window->left, value.window->right) >= 0;
  const bool hides = limits || value.mask.kind != MaskKind::kNone ||
                     value.causal == Causal::kTopLeft;
  if (!hides) value.mask = {MaskKind::kButN, 0, kOwnAll};
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  plan.unsupported = nondeterministic_reason(kernel);
  const int64_t row = row_with_hidden_key(value);
  if (row < 0) plan.not_applicable = "no row sees one key and not another";
  PlannedCall call;
  call.want_lse = wants_lse(kernel);
  plan.calls.push_back(call);
  call.edit = other_hidden_keys;
  call.argument = row;
  plan.calls.push_back(call);
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "as it was";
  pair.second_name = "other K and V at keys that the row does not see";
  pair.map = only_row(input.value.shape, input.calls[1].planned->argument);
  pair.looks = "the row depends on keys that it must not see";
  compare_bit_for_bit(input, pair, {TensorName::kO, TensorName::kLse},
                      judgement);
  return judgement;
}

}  // namespace

extern constinit const Law masked_keys_change_nothing{
    "masked_keys_change_nothing",
    "Keys that a row does not see change nothing of it: other finite K and V "
    "there leave the row the same, bit for bit.",
    "o[i] = f(q[i], k[j], v[j] : j visible to i)",
    "a row sees one key and not another; a deterministic kernel",
    "Hidden keys do not occur in the formula of the row.",
    "The same operations on the same numbers give the same bits.",
    "(a) it is bitwise, (d) it needs no oracle",
    Aim{.admits = kAdmitRope | kAdmitPairs | kAdmitScores | kAdmitLayout,
        .about = kAdmitMask | kAdmitWindow},
    fit,
    plan,
    judge};

}  // namespace qkvet
