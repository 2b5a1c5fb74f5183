// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "properties/calls/call_pairs.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_nan_stays_in_its_head {

struct Place {
  int64_t b = 0, kv = 0, j = 0, c = 0;
};

Place place_of(const Case& value) {
  const Shape& s = value.shape;
  const auto pick = [&](int64_t n) { return pick_by_seed(value.seed >> 1, n); };
  return {pick(s.B), pick(s.Hkv), pick(s.Tk), pick(s.d)};
}

// One element of k: rows that see its key can only be judged as NaN.
void put_nan(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const Place at = place_of(value);
  const int64_t row = (at.b * s.Hkv + at.kv) * s.Tk + at.j;
  inputs.k[static_cast<size_t>(row * s.d + at.c)] =
      std::numeric_limits<double>::quiet_NaN();
}

Case constrain(Case value) {
  return value.shape.B >= 2 ? value : with_two_kv_heads(std::move(value));
}

Plan plan(const Case&, const KernelInfo& kernel) {
  return plan_same_rows(kernel, put_nan);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Place nan = place_of(input.value);
  const int64_t group = input.value.shape.group();
  CallPair pair;
  pair.first_name = "before";
  pair.second_name = "with a NaN in a key of another head or member";
  pair.map = [&](const Element& at) {
    return at.b == nan.b && at.h / group == nan.kv ? std::nullopt
                                                   : std::optional(at);
  };
  pair.looks = "a NaN spreads over its head's border";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_nan_stays_in_its_head

extern constinit const Law nan_stays_in_its_head{
    "nan_stays_in_its_head",
    "A NaN stays in its head: all other heads and members are the same, "
    "bit for bit.",
    "o[b,h] = f(q[b,h], k[b,h / group], v[b,h / group])",
    "two heads or members",
    "The other heads do not occur in the formula of a head.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (c) it reaches what is "
    "multiplied by zero",
    120,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing},
    of_nan_stays_in_its_head::constrain,
    of_nan_stays_in_its_head::plan,
    of_nan_stays_in_its_head::judge};

}  // namespace qkvet::properties
