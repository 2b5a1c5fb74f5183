// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#include "properties/calls/option_forms.h"

namespace qkvet::properties {
namespace of_masked_nonfinite_is_ignored {

// NaN, infinity and minus infinity in turn, separately in k and v.
double nonfinite(uint64_t n) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 3> kValues = {
      std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity};
  return kValues[static_cast<size_t>(n % 3)];
}

void break_hidden_keys(const Case& value, int64_t row, Inputs& inputs) {
  const int64_t d = value.shape.d, dv = value.shape.dv;
  const Inputs before = inputs;
  for_each_hidden_key(value, before, row, [&](int64_t n) {
    const uint64_t turn = value.seed + static_cast<uint64_t>(n);
    std::fill_n(inputs.k.begin() + n * d, d, nonfinite(turn));
    std::fill_n(inputs.v.begin() + n * dv, dv, nonfinite(turn / 3));
  });
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan = plan_hidden_keys(value, kernel, break_hidden_keys);
  if (kernel.dialect.masked_nonfinite != QKVET_MASKED_IGNORED)
    plan.unsupported = "not declared: NaN and Inf at masked keys are ignored";
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "as it was";
  pair.second_name = "NaN or Inf in K and V at keys that the row does not see";
  pair.map = only_row(input.value.shape, input.calls[1].planned->argument);
  pair.looks = "a weight of 0 is multiplied by the value of a hidden key";
  compare_same_rows(input, pair, judgement);
  return judgement;
}

}  // namespace of_masked_nonfinite_is_ignored

extern constinit const Law masked_nonfinite_is_ignored{
    "masked_nonfinite_is_ignored",
    "NaN and infinity at keys that a row does not see are ignored, where the "
    "kernel declares it: the row stays as it is.",
    "o[i] = f(q[i], k[j], v[j] : j visible to i), k[j] = v[j] = NaN elsewhere",
    "a row sees one key and not another; a kernel that declares to ignore "
    "what is not finite",
    "Hidden keys do not occur in the formula of the row.",
    "Bit for bit where the kernel declares other_data_invariant; else the same "
    "bits or within the bound of the row, which is made of what it sees.",
    "(a) it is bitwise where that is claimed, (d) it needs no oracle",
    340,
    Domain{.allows = QKVET_OPTION_ROPE | kAllowPairs | kAllowScores |
                     kOptionLayout | kAllowServing | QKVET_OPTION_KEY_LISTS |
                     QKVET_OPTION_SEGMENTS | QKVET_OPTION_CHUNK |
                     QKVET_OPTION_TREE_MASK,
           .about = QKVET_OPTION_MASK | QKVET_OPTION_WINDOW},
    with_hidden_keys,
    of_masked_nonfinite_is_ignored::plan,
    of_masked_nonfinite_is_ignored::judge};

}  // namespace qkvet::properties
