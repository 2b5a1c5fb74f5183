// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/call_pairs.h"
#include "properties/calls/option_forms.h"
#include "properties/calls/raw_score.h"
#include "properties/conventions/constrain.h"

namespace qkvet::properties {
namespace of_shifted_bias_changes_nothing {

// The number added to the whole bias: a half in -4 .. 4, so that a lattice
// stays exact in every storage type. Every second case of wide types moves it
// some 2^17, to either side: beyond -10000, which serves as -inf in many masks,
// and beyond the largest f16.
double shift_of(const Case& value, const PrecisionModel& model) {
  constexpr uint64_t kSteps = 17;
  const double near = (static_cast<double>(value.seed % kSteps) - 8) / 2;
  if (value.seed % 2 != 0 || !keeps_far_scores(value, model)) return near;
  return near + (value.seed % 4 == 0 ? 0x1p17 : -0x1p17);
}

// The shift in halves, which is a whole number.
void shift_bias(const Case&, int64_t halves, Inputs& inputs) {
  for (double& x : inputs.bias) x += static_cast<double>(halves) / 2;
}

Case constrain(Case value) {
  value = with_own_bias(std::move(value));
  value.score_bias = make_recipe(RecipeKind::kLattice);
  return without_set_values(std::move(value), TensorName::kBias);
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  const PrecisionModel model = resolve_precision(kernel.precision).model;
  return plan_pair(kernel, shift_bias,
                   static_cast<int64_t>(2 * shift_of(value, model)));
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  CallPair pair;
  pair.first_name = "the bias as it is";
  pair.second_name = "one number added to all of it";
  pair.lse_offset = [shift = shift_of(input.value, input.model)](
                        const Element&) { return shift; };
  pair.looks =
      "the maximum is taken without the bias, or the bias is cut off, or kept "
      "in a narrower type";
  compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_shifted_bias_changes_nothing

extern constinit const Law shifted_bias_changes_nothing{
    "shifted_bias_changes_nothing",
    "One number added to the whole bias changes only lse.",
    "softmax(s + bias + a) = softmax(s + bias); lse grows by a",
    "a bias on a lattice; no softcap, no sink",
    "Every score of a row grows by the same number, and the softmax divides it "
    "out.",
    "Lattice plus number are exact in storage; each side is within its own "
    "bound of the same number.",
    "(d) it needs no oracle: it kills what oracle and kernel get wrong "
    "alike",
    205,
    Domain{.allows = kAllowPairs | QKVET_OPTION_BIAS | QKVET_OPTION_ALIBI |
                     kAllowMemory,
           .about = QKVET_OPTION_BIAS},
    of_shifted_bias_changes_nothing::constrain,
    of_shifted_bias_changes_nothing::plan,
    of_shifted_bias_changes_nothing::judge};

}  // namespace qkvet::properties
