// SPDX-License-Identifier: Apache-2.0
// Helpers of laws about merges. State n of head h of row t is key n of member
// t: v[t,h,n,:] is its o, bias[t,h,0,n] its lse, which is natural here whatever
// the kernel's base is.
#ifndef QKVET_PROPERTIES_CALLS_MERGE_CALLS_H_
#define QKVET_PROPERTIES_CALLS_MERGE_CALLS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/case/merge.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// Domain::allows of laws about merges, without and with numbers of states for
// each row.
inline constexpr uint64_t kAllowMerge = QKVET_OPTION_BIAS | kOptionLayout;
inline constexpr uint64_t kAllowRaggedMerge =
    kAllowMerge | QKVET_OPTION_LENGTHS;

// The nearest merge with at least this many states of a row.
inline Case constrain_merge(Case value, int64_t least_states = 1) {
  constrain_to_merge(value);
  Shape& s = value.shape;
  s.B = std::max<int64_t>(s.B, 1);
  s.Tk = std::max(s.Tk, least_states);
  return value;
}

template <int64_t least>
Case with_states(Case value) {
  return constrain_merge(std::move(value), least);
}

// One call with its truth.
inline PlannedCall merge_call() {
  PlannedCall call;
  call.operation = Operation::kMerge;
  call.want_lse = true;
  call.needs_truth = true;
  return call;
}
// The call with the edit.
inline Plan plan_merge_edit(InputEdit edit) {
  Plan plan;
  plan.calls.push_back(merge_call());
  plan.calls[0].edit = edit;
  return plan;
}
// Calls visit(t, h) for all rows and heads.
template <class Visit>
void for_each_head(const Shape& s, Visit visit) {
  for (int64_t t = 0; t < s.B; ++t)
    for (int64_t h = 0; h < s.H; ++h) visit(t, h);
}

// A state's place in v, of its first channel, and in the bias.
inline int64_t place_of_state(const Shape& s, int64_t t, int64_t h, int64_t n) {
  return (t * s.H + h) * s.Tk + n;
}

// Calls visit(t, h, n, place) for all states of rows and heads.
template <class Visit>
void for_each_state(const Shape& s, Visit visit) {
  for_each_head(s, [&](int64_t t, int64_t h) {
    for (int64_t n = 0; n < s.Tk; ++n)
      visit(t, h, n, static_cast<size_t>(place_of_state(s, t, h, n)));
  });
}

// A state of the row that the law picks by the case's seed.
inline int64_t picked_state(const Case& value, int64_t t, int64_t h) {
  const uint64_t bits =
      random_bits(value.seed, TensorName::kStatesLse, t, h, 0, 0) >> 32;
  return pick_by_seed(bits, std::max<int64_t>(counted_keys(value, t), 1));
}

// Judges the first call: o is that of this state of a row, and lse its own and
// `lse_offset`, each within the bound.
inline void compare_with_states(const JudgeInput& input,
                                int64_t (*state)(const Case&, int64_t, int64_t),
                                double lse_offset, Judgement& judgement) {
  const Shape& s = input.value.shape;
  const CallView& call = input.calls[0];
  std::vector<double> o, lse;
  for_each_head(s, [&](int64_t t, int64_t h) {
    const int64_t at = place_of_state(s, t, h, state(input.value, t, h));
    const auto first = call.inputs->v.begin() + at * s.dv;
    o.insert(o.end(), first, first + s.dv);
    lse.push_back(call.inputs->bias[static_cast<size_t>(at)] + lse_offset);
  });
  compare_with_known(input, call, std::move(o), judgement);
  if (judgement.verdict != Verdict::kFailed)
    compare_lse_with_known(input, call, std::move(lse), judgement);
}

inline constexpr double kEmptyLse = -std::numeric_limits<double>::infinity();

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_MERGE_CALLS_H_
