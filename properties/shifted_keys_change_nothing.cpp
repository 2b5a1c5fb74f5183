// SPDX-License-Identifier: Apache-2.0
#include "properties/call_pairs.h"
#include "properties/fit.h"

namespace qkvet {
namespace of_shifted_keys_change_nothing {

// What is added to channel c of every key: halves in -4 .. 4, so that sums of
// lattice keys stay exact in every storage type.
double shift_of(const Case& value, int64_t c) {
  constexpr uint64_t kSteps = 17;
  const uint64_t step = (value.seed + 5 * static_cast<uint64_t>(c)) % kSteps;
  return (static_cast<double>(step) - 8) / 2;
}

void shift_keys(const Case& value, int64_t, Inputs& inputs) {
  for (size_t n = 0; n < inputs.k.size(); ++n)
    inputs.k[n] += shift_of(value, static_cast<int64_t>(n) % value.shape.d);
}

Case fit(Case value) {
  value.k = make_recipe(RecipeKind::kLattice);
  return without_set_values(std::move(value), TensorName::kK);
}

Plan plan(const Case&, const KernelInfo& kernel) {
  return plan_pair(kernel, shift_keys);
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Case& value = input.value;
  const Shape& s = value.shape;
  CallPair pair;
  pair.first_name = "keys as they are";
  pair.second_name = "all keys shifted by one vector";
  pair.lse_offset = [&](const Element& at) {
    const int64_t row = (at.b * s.H + at.h) * s.Tq + at.i;
    double dot = 0;
    for (int64_t c = 0; c < s.d; ++c)
      dot += input.calls[0].inputs->q[static_cast<size_t>(row * s.d + c)] *
             shift_of(value, c);
    return scale_of(value) * dot;
  };
  pair.looks =
      "scores do not cancel: the maximum is not subtracted, or a key "
      "that does not exist takes part";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_shifted_keys_change_nothing

extern constinit const Law shifted_keys_change_nothing{
    "shifted_keys_change_nothing",
    "Shifting all keys by one vector changes nothing but lse.",
    "softmax(c q (k + u)^T) = softmax(c q k^T); lse grows by c q.u",
    "no softcap, no sink; keys on a lattice",
    "The shift adds the same number to every score of a row, and the "
    "softmax divides it out.",
    "Lattice keys plus the shift are exact in storage; each side is "
    "within its own bound of the same number.",
    "(d) it needs no oracle: it kills what oracle and kernel get wrong "
    "alike",
    Aim{.admits = kAdmitPairs | kAdmitBias | kAdmitAlibi | kAdmitMemory},
    of_shifted_keys_change_nothing::fit,
    of_shifted_keys_change_nothing::plan,
    of_shifted_keys_change_nothing::judge};

}  // namespace qkvet
