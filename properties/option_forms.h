// SPDX-License-Identifier: Apache-2.0
// One question in other forms: masks instead of rules, members on their own,
// rows chosen by what they see.
#ifndef QKVET_PROPERTIES_OPTION_FORMS_H_
#define QKVET_PROPERTIES_OPTION_FORMS_H_

#include "properties/call_pairs.h"
#include "properties/visibility.h"

namespace qkvet {

// A case whose mask has all extents of its own, for an edit to fill.
Case with_own_mask(Case value);
// The same for a bias.
Case with_own_bias(Case value);

// Edits for these. The first writes who sees whom in the case as it is, be it
// by causal rule, window, mask or lengths.
void write_visible_pairs(const Case& value, int64_t argument, Inputs& inputs);

// Two calls of which the second is `variant` with `edit`; both with lse, and
// with their truth if `bounds`.
Plan plan_two_forms(const KernelInfo& kernel, const Case& variant,
                    InputEdit edit, bool bounds = true);

// Some queries and keys of one member.
struct MemberPart {
  int64_t b = 0;
  int64_t q_from = 0, q_end = 0;
  int64_t k_from = 0, k_end = 0;
};
// A call of its own about that part: B = 1, no lengths, contiguous.
Case part_case(Case value, const MemberPart& part);
// Its inputs, cut out of those of the case.
void cut_part(const Case& value, const MemberPart& part, Inputs& inputs);
// Where an element of the case's o and lse is found in that call.
std::optional<Element> place_in_part(const MemberPart& part,
                                     const Element& element);

// A row ((b * H + h) * Tq + i) that sees some key of those that count and not
// another one, chosen by the seed; -1 if there is none.
int64_t row_with_hidden_key(const Case& value);
// Calls visit(n) with the index [B,Hkv,Tk] of each key that the row does not
// see and that is not beyond the lengths.
void for_each_hidden_key(const Case& value, const Inputs& inputs, int64_t row,
                         const std::function<void(int64_t)>& visit);
// Nothing but that row, at its own place.
ElementMap only_row(const Shape& shape, int64_t row);

}  // namespace qkvet

#endif  // QKVET_PROPERTIES_OPTION_FORMS_H_
