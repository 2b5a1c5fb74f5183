// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "properties/calls/call_pairs.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_other_rows_change_nothing {

int64_t kept_row(const Case& value) {
  return pick_by_seed(value.seed, value.shape.Tq);
}

void other_queries(const Case& value, int64_t, Inputs& inputs) {
  const Recipe recipe{RecipeKind::kLargeN, 3};
  const Shape& s = value.shape;
  double* at = inputs.q.data();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i, at += s.d)
        if (i != kept_row(value) && !std::isnan(*at))
          recipe_row(recipe, ~value.seed, TensorName::kQ, b, h, i,
                     {at, static_cast<size_t>(s.d)});
}

Case constrain(Case value) {
  value.shape.Tq = std::max<int64_t>(value.shape.Tq, 2);
  return value;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  return plan_pair(kernel, other_queries);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "before";
  pair.second_name = "after the other queries changed";
  pair.map = [&](const Element& at) {
    return at.i == kept_row(input.value) ? std::optional(at) : std::nullopt;
  };
  pair.looks = "another query row reaches this one";
  // A tile may rescale all its rows when one of them needs it.
  compare_as_claimed(input, pair, QKVET_FLAG_ROW_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_other_rows_change_nothing

extern constinit const Law other_rows_change_nothing{
    "other_rows_change_nothing",
    "Other query rows change nothing: a row's output is its own.",
    "o[i] = f(q[i], k, v)",
    "two query rows",
    "The other queries do not occur in the formula of a row.",
    "Bit for bit where the kernel declares row_invariant; else each side "
    "within its own bound.",
    "(d) it needs no oracle: rows of one tile share its maximum only by "
    "mistake",
    90,
    Domain{.allows = kAllowAll},
    of_other_rows_change_nothing::constrain,
    of_other_rows_change_nothing::plan,
    of_other_rows_change_nothing::judge};

}  // namespace qkvet::properties
