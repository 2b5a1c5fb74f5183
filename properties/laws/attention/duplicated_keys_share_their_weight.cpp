// SPDX-License-Identifier: Apache-2.0
#include <numbers>

#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_duplicated_keys_share_their_weight {

// Turns [B,Hkv,Tk,width] into [B,Hkv,2 Tk,width]: the keys once more after
// themselves.
void append_copy(const Case& value, int64_t width, std::vector<double>& rows) {
  const int64_t head = value.shape.Tk * width;
  std::vector<double> out;
  out.reserve(2 * rows.size());
  for (auto at = rows.begin(); at != rows.end(); at += head)
    for (int copy = 0; copy < 2; ++copy) out.insert(out.end(), at, at + head);
  rows = std::move(out);
}

void duplicate(const Case& value, int64_t, Inputs& inputs) {
  append_copy(value, value.shape.d, inputs.k);
  append_copy(value, value.shape.dv, inputs.v);
}

Case constrain(Case value) {
  value.causal = Causal::kNone;
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Case variant = value;
  variant.shape.Tk *= 2;
  return plan_two_forms(kernel, variant, duplicate);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "each key once";
  pair.second_name = "each key twice";
  pair.lse_offset = [](const Element&) { return std::numbers::ln2; };
  pair.looks = "a key is worth more or less the second time";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_duplicated_keys_share_their_weight

extern constinit const Law duplicated_keys_share_their_weight{
    "duplicated_keys_share_their_weight",
    "Giving every key twice changes only lse, which grows by ln 2.",
    "forward(q, [k k], [v v]) = forward(q, k, v); lse + ln 2",
    "nothing depends on positions; no sink",
    "Numerator and denominator of the softmax double.",
    "Each side is within its own bound of the same number.",
    "(c) it sets two key lengths against each other, (d) it needs no "
    "oracle",
    240,
    Domain{.allows = QKVET_OPTION_SOFTCAP | kAllowMemory},
    of_duplicated_keys_share_their_weight::constrain,
    of_duplicated_keys_share_their_weight::plan,
    of_duplicated_keys_share_their_weight::judge};

}  // namespace qkvet::properties
