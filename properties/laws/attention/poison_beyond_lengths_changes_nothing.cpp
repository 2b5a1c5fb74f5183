// SPDX-License-Identifier: Apache-2.0
// Data beyond the lengths is NaN in every case; here one call has other numbers
// there.
#include <algorithm>
#include <cmath>
#include <utility>

#include "properties/calls/call_pairs.h"
#include "properties/judging/finite.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {
namespace of_poison_beyond_lengths_changes_nothing {

// The same for all members and heads, as k and v may be shared.
void replace(const Case& value, TensorName tensor,
             std::vector<double>& values) {
  const Recipe recipe{RecipeKind::kLargeN, 3};
  const auto [members, heads, rows, width] =
      tensor_extents(value.shape, tensor);
  std::vector<double> other(static_cast<size_t>(width));
  double* at = values.data();
  for (int64_t n = 0; n < members * heads * rows; ++n, at += width) {
    if (!std::isnan(*at)) continue;
    recipe_row(recipe, ~value.seed, tensor, 0, 0, n % rows, other);
    for (size_t c = 0; c < other.size(); ++c)
      if (std::isnan(at[c])) at[c] = other[c];
  }
}

void numbers_for_poison(const Case& value, int64_t, Inputs& inputs) {
  replace(value, TensorName::kQ, inputs.q);
  replace(value, TensorName::kK, inputs.k);
  replace(value, TensorName::kV, inputs.v);
}

bool has_rows_beyond(const Case& value) {
  for (int64_t b = 0; b < value.shape.B; ++b)
    if (counted_queries(value, b) < value.shape.Tq ||
        counted_keys(value, b) < value.shape.Tk)
      return true;
  return false;
}

// If the lengths leave no row out, the last key is left out, or the last query.
Case with_rows_beyond(Case value) {
  Shape& s = value.shape;
  if (has_rows_beyond(value)) return value;
  if (!value.q_len.empty() && value.kv_len.empty()) {
    s.Tq = std::max<int64_t>(s.Tq, 2);
    for (int64_t& length : value.q_len) length = std::min(length, s.Tq - 1);
    return value;
  }
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (value.cu_k.empty() && static_cast<size_t>(s.B) <= kMaxMembers)
    value.kv_len.assign(static_cast<size_t>(s.B), s.Tk - 1);
  for (int64_t& start : value.cu_k) start = std::min(start, s.Tk - 1);
  return value;
}

// Rows that see no key are not compared. If there are no others, all rows
// count, and options that hide keys are removed. The least is one key, at which
// shrinking ends.
Case constrain(Case value) {
  value = with_rows_beyond(std::move(value));
  const bool packed = !value.cu_k.empty();
  if (value.shape.B == 0 || some_row_sees_a_key(value)) return value;
  value.mask = {};
  value.window.reset();
  value.q_len.clear();
  value.kv_len.clear();
  Shape& s = value.shape;
  s.Tq = std::max<int64_t>(s.Tq, 1);
  s.Tk = std::max<int64_t>(s.Tk, 2);
  if (packed) {
    value.cu_q = {0, s.Tq};
    value.cu_k = {0, 1};
  } else if (static_cast<size_t>(s.B) <= kMaxMembers) {
    value.kv_len.assign(static_cast<size_t>(s.B), 0);
    value.kv_len[0] = 1;
  }
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_same_rows(kernel, numbers_for_poison);
  if (!has_rows_beyond(value))
    plan.not_applicable = "nothing lies beyond the lengths";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  const bool finite = needs_finite_padding(input.kernel.dialect);
  pair.first_name =
      finite ? "numbers beyond the lengths" : "NaN beyond the lengths";
  pair.second_name = finite ? "other numbers beyond the lengths"
                            : "numbers beyond the lengths";
  pair.looks = "the row depends on what lies beyond the lengths";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_poison_beyond_lengths_changes_nothing

extern constinit const Law poison_beyond_lengths_changes_nothing{
    "poison_beyond_lengths_changes_nothing",
    "Elements beyond the lengths change nothing, even NaN: the rows that count "
    "stay as they are.",
    "o[b, i < q_len] = f(q[b, i], k[b, < kv_len], v[b, < kv_len])",
    "lengths or packed members that leave rows of q, k or v over",
    "These rows do not occur in the formula.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    320,
    Domain{.allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields,
           .about = QKVET_OPTION_LENGTHS | QKVET_OPTION_PACKED},
    of_poison_beyond_lengths_changes_nothing::constrain,
    of_poison_beyond_lengths_changes_nothing::plan,
    of_poison_beyond_lengths_changes_nothing::judge};

}  // namespace qkvet::properties
