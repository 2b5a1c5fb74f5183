// SPDX-License-Identifier: Apache-2.0
// The members of a packed batch from the last to the first, with their keys,
// and with their rows of lengths and block table if keys are in pages.
#include <algorithm>

#include "properties/calls/member_part.h"
#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_packed_order_changes_nothing {

using Starts = std::vector<int64_t>;

// The starts of the members in the opposite order.
Starts turned(const Starts& starts) {
  Starts out = starts;
  for (size_t n = 0; n < starts.size(); ++n)
    out[n] = starts.back() - starts[starts.size() - 1 - n];
  return out;
}

// The new place of row i; rows after the last member stay.
int64_t place_of(const Starts& starts, int64_t i) {
  if (i >= starts.back()) return i;
  const auto next = std::upper_bound(starts.begin(), starts.end(), i);
  return starts.back() - *next + (i - *(next - 1));
}

// [heads, rows, width].
void turn(const Starts& starts, int64_t rows, int64_t width,
          std::vector<double>& values) {
  const std::vector<double> from = values;
  const auto all =
      static_cast<int64_t>(from.size()) / std::max<int64_t>(width, 1);
  for (int64_t row = 0; row < all; ++row) {
    const int64_t head = row / rows;
    const int64_t to = head * rows + place_of(starts, row % rows);
    std::copy_n(from.begin() + row * width, width, values.begin() + to * width);
  }
}

void turn_members(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  turn(value.cu_q, s.Tq, s.d, inputs.q);
  turn(value.cu_k, s.Tk, s.d, inputs.k);
  turn(value.cu_k, s.Tk, s.dv, inputs.v);
  if (!value.member_slopes) return;
  const std::vector<double> slopes = inputs.slopes;
  const int64_t members = member_count(value);
  for (int64_t m = 0; m < members; ++m)
    std::copy_n(slopes.begin() + m * s.H, s.H,
                inputs.slopes.begin() + (members - 1 - m) * s.H);
}

Case constrain(Case value) {
  return value.cu_q.size() > 2 ? value : with_two_members(value);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.cu_q = turned(value.cu_q);
  variant.cu_k = turned(value.cu_k);
  variant.set.clear();
  return plan_two_forms(kernel, variant, turn_members);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "members in order";
  pair.second_name = "from the last to the first";
  pair.map = [&](const Element& at) {
    Element to = at;
    to.i = place_of(input.value.cu_q, at.i);
    return std::optional(to);
  };
  pair.looks = "where a packed member stands decides what it computes";
  // With pages, another order of members is another place of their tokens.
  const uint64_t places =
      input.value.paging.size > 0 ? QKVET_FLAG_PAGE_PLACEMENT_INVARIANT : 0;
  compare_as_claimed(input, pair, QKVET_FLAG_BATCH_INVARIANT | places,
                     judgement);
  return judgement;
}

}  // namespace of_packed_order_changes_nothing

extern constinit const Law packed_order_changes_nothing{
    "packed_order_changes_nothing",
    "In which order the members of a packed batch stand changes nothing: their "
    "rows move with them.",
    "forward(members m, ..., 1) = the rows of forward(members 1, ..., m)",
    "a packed batch of two members; no mask, bias or positions",
    "Every member is computed by the same formula from its own data.",
    "Bit for bit where the kernel declares batch_invariant, and in pages "
    "page_placement_invariant; else each side within its own bound.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    445,
    Domain{.allows = QKVET_OPTION_WINDOW | QKVET_OPTION_PACKED |
                     QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                     QKVET_OPTION_ALIBI | kOptionLayout | kAllowServing,
           .about = QKVET_OPTION_PACKED | QKVET_OPTION_PACKED_PAGES},
    of_packed_order_changes_nothing::constrain,
    of_packed_order_changes_nothing::plan,
    of_packed_order_changes_nothing::judge};

}  // namespace qkvet::properties
