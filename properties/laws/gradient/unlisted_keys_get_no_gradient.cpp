// SPDX-License-Identifier: Apache-2.0
// One key is removed from all lists: its gradient is zero.
#include "properties/calls/gradient_calls.h"
#include "properties/calls/subject_calls.h"
#include "properties/checking/list_cases.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_unlisted_keys_get_no_gradient {

// The entry that names key t of a batch: a place among the keys of its member.
int64_t entry_of(const Case& value, int64_t t) {
  int64_t first = 0;
  for (const int64_t start : value.cu_k)
    if (start <= t) first = start;
  return (t - first) / value.listed.block;
}

int64_t chosen_entry(const Case& value) {
  return entry_of(value, pick_by_seed(value.seed, value.shape.Tk));
}

void unlist(const Case& value, int64_t, Inputs& inputs) {
  const int64_t chosen = chosen_entry(value);
  for (int32_t& entry : inputs.key_indices)
    if (entry == chosen) entry = -1;
}

Case constrain(Case value) {
  value.shape.Tk = std::max<int64_t>(value.shape.Tk, 1);
  return with_lists(with_moderate_data(std::move(value)), 1);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const int64_t chosen = chosen_entry(input.value);
  compare_with_zero(
      input, input.calls[0], {TensorName::kDK, TensorName::kDV},
      [&](const Element& at) {
        return counts(input, at) && entry_of(input.value, at.i) == chosen;
      },
      "this key stands in no list: what it gets belongs to another one, or "
      "comes from pairs that the lists hide",
      judgement);
  return judgement;
}

}  // namespace of_unlisted_keys_get_no_gradient

extern constinit const Law unlisted_keys_get_no_gradient{
    "unlisted_keys_get_no_gradient",
    "Keys in no list get no gradient.",
    "j in no key_indices[i] => dk[j] = 0, dv[j] = 0",
    "lists of keys, out of which one key is taken; data of moderate size",
    "dk and dv of a key are sums over the rows that see it, and none does.",
    "A sum without a term is 0, and 0 times anything finite is 0.",
    "(a) it is exact, (d) it needs no oracle",
    24,
    Domain{.subject = Subject::kBackward,
           .free_data = false,
           .allows = kAllowGradients,
           .about = QKVET_OPTION_KEY_LISTS},
    of_unlisted_keys_get_no_gradient::constrain,
    plan_one_call<of_unlisted_keys_get_no_gradient::unlist>,
    of_unlisted_keys_get_no_gradient::judge};

}  // namespace qkvet::properties
