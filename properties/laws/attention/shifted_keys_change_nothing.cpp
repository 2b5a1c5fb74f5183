// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "properties/calls/call_pairs.h"
#include "properties/calls/raw_score.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_shifted_keys_change_nothing {

// What is added to channel c of every key: halves in -4 .. 4, so that sums of
// lattice keys stay exact in every storage type.
double near_shift(const Case& value, int64_t c) {
  constexpr uint64_t kSteps = 17;
  const uint64_t step = (value.seed + 5 * static_cast<uint64_t>(c)) % kSteps;
  return (static_cast<double>(step) - 8) / 2;
}

// The exponent of what is added to channel 0 besides, or 0 for nothing. Every
// second case of f32 and f64 takes whole rows of scores some 2^15 away, to
// either side: beyond -10000, at which the maxima of some kernels begin. Of one
// channel alone, since the bound grows with the terms of that size.
int64_t far_exponent(const Case& value, const PrecisionModel& model) {
  constexpr int kTarget = 15, kMost = 17;
  if (value.seed % 2 != 0 || !keeps_far_scores(value, model)) return 0;
  const double scale = std::fabs(scale_of(value));
  if (scale == 0) return 0;
  return std::clamp(kTarget - std::ilogb(scale), 0, kMost);
}

double shift_of(const Case& value, int64_t exponent, int64_t c) {
  const double near = near_shift(value, c);
  if (c != 0 || exponent == 0) return near;
  const double far = std::ldexp(1.0, static_cast<int>(exponent));
  return near + (value.seed % 4 == 0 ? far : -far);
}

void shift_keys(const Case& value, int64_t exponent, Inputs& inputs) {
  for (size_t n = 0; n < inputs.k.size(); ++n)
    inputs.k[n] +=
        shift_of(value, exponent, static_cast<int64_t>(n) % value.shape.d);
}

Case constrain(Case value) {
  value.k = make_recipe(RecipeKind::kLattice);
  return without_set_values(std::move(value), TensorName::kK);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  const PrecisionModel model = resolve_precision(kernel.precision).model;
  return plan_pair(kernel, shift_keys, far_exponent(value, model));
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Case& value = input.value;
  const Shape& s = value.shape;
  CallPair pair;
  pair.first_name = "keys as they are";
  pair.second_name = "all keys shifted by one vector";
  const int64_t exponent = far_exponent(value, input.model);
  pair.lse_offset = [&](const Element& at) {
    const int64_t row = (at.b * s.H + at.h) * s.Tq + at.i;
    double dot = 0;
    for (int64_t c = 0; c < s.d; ++c)
      dot += input.calls[0].inputs->q[static_cast<size_t>(row * s.d + c)] *
             shift_of(value, exponent, c);
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
    200,
    Domain{.own_values = true,
           .allows = kAllowPairs | kAllowBias | kAllowAlibi | kAllowMemory},
    of_shifted_keys_change_nothing::constrain,
    of_shifted_keys_change_nothing::plan,
    of_shifted_keys_change_nothing::judge};

}  // namespace qkvet::properties
