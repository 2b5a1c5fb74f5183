// SPDX-License-Identifier: Apache-2.0
// One call in other forms: masks instead of rules, other numbers at keys that a
// row does not see.
#ifndef QKVET_PROPERTIES_CALLS_OPTION_FORMS_H_
#define QKVET_PROPERTIES_CALLS_OPTION_FORMS_H_

#include "properties/calls/call_pairs.h"
#include "properties/judging/visibility.h"

namespace qkvet::properties {

// A case with a mask of full extents, for an edit to fill.
Case with_own_mask(Case value);
// The same for a bias.
Case with_own_bias(Case value);

// The same case with a bias instead of its mask, and the edit that fills the
// bias: 0 where the mask lets a pair pass, -infinity elsewhere.
Case with_bias_for_mask(Case value);
void mask_to_infinite_bias(const Case& value, int64_t, Inputs& inputs);

// A case with segments, ranges, a chunk or a tree. None of them is from a file,
// because a plan has no data.
Case with_mask_fields(Case value);

// Edits for these. The first writes which pairs are visible in the case as it
// is, by causal rule, window, mask or lengths. The argument is whether a window
// cuts ranges, too.
void write_visible_pairs(const Case& value, int64_t argument, Inputs& inputs);

// A window, a mask or a causal rule that leaves some row a key and hides
// another one from it.
Case with_hidden_keys(Case value);
// For relations about one such row ((b * H + h) * Tq + i), chosen by the seed:
// the argument of the second call. Its edit changes the keys that are hidden
// from the row; only that row is compared, at its own place.
void plan_hidden_keys(const Case& value, const KernelInfo& kernel, Plan& plan);
void only_row_of_call(const JudgeInput& input, CallPair& pair);
// Calls visit(n) with the index [B,Hkv,Tk] of each key that the row does not
// see and that is not beyond the lengths.
void for_each_hidden_key(const Case& value, const Inputs& inputs, int64_t row,
                         const std::function<void(int64_t)>& visit);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_OPTION_FORMS_H_
