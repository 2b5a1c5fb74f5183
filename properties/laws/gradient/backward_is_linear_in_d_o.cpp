// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "properties/calls/gradient_calls.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_backward_is_linear_in_d_o {

// Negative, because a sign is no more than a factor.
constexpr double kFactor = -8;
// Below this, a product of a weight could be subnormal on one side only.
constexpr double kLeastWeight = 0x1p-60;

void scale_up(const Case&, int64_t, Inputs& inputs) {
  for (double& value : inputs.d_o) value *= kFactor;
}

void no_gradient(const Case&, int64_t, Inputs& inputs) {
  std::fill(inputs.d_o.begin(), inputs.d_o.end(), 0.0);
}

// Small integers: times eight they are small integers again.
Case constrain(Case value) {
  value = with_moderate_data(std::move(value));
  value.d_o = make_recipe(RecipeKind::kLattice);
  return value;
}

Plan plan(const Case& value, const KernelInfo& kernel) {
  Plan plan;
  const bool bitwise =
      claims_same_bits(kernel, QKVET_FLAG_POWER_OF_TWO_INVARIANT);
  // Near 2^-24 a scaled number is rounded differently.
  if (value.q_dtype == Dtype::kF16)
    plan.not_applicable = "gradients in f16 may underflow";
  plan.calls = {backward_call(/*truth=*/true),  // for the weights
                backward_call(/*truth=*/!bitwise, scale_up),
                backward_call(/*truth=*/false, no_gradient)};
  return plan;
}

bool is_tiny(double weight) { return weight != 0 && weight < kLeastWeight; }

// Also the weights of sinks, from which the gradient of the sinks is computed:
// the rest of a row's weights to 1, computed from its lse, in which the sink
// may be counted or not.
bool weights_are_moderate(const JudgeInput& input, const CallView& call) {
  const OracleOutput& forward = call.truth->oracle;
  if (std::any_of(forward.weights.begin(), forward.weights.end(), is_tiny))
    return false;
  const std::vector<double>& sinks = call.inputs->sink;
  const Shape& s = input.value.shape;
  for (size_t row = 0; row < forward.lse.size() && !sinks.empty(); ++row) {
    const auto at = static_cast<int64_t>(row);
    const double sink = sinks[static_cast<size_t>(at / s.Tq % s.H)];
    // Counted twice it is at most halved.
    if (is_tiny(1 / (1 + std::exp(forward.lse[row] - sink)))) return false;
  }
  return true;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  compare_with_zero(
      input, input.calls[2], kGradients,
      [&](const Element& at) { return counts(input, at); },
      "dO is zero, and the gradient is not", judgement);
  if (judgement.finding || !weights_are_moderate(input, input.calls[0]))
    return judgement;
  CallPair pair;
  pair.first_name = "-8 times the gradient for dO";
  pair.second_name = "the gradient for -8 dO";
  pair.factor = kFactor;
  pair.looks =
      "dO, or what is made of it, is cut off, rounded on a grid of its own, "
      "or added to something else";
  if (claims_same_bits(input.kernel, QKVET_FLAG_POWER_OF_TWO_INVARIANT))
    compare_bit_for_bit(input, pair, judgement);
  else
    compare_within_bounds(input, pair, judgement);
  return judgement;
}

}  // namespace of_backward_is_linear_in_d_o

extern constinit const Law backward_is_linear_in_d_o{
    "backward_is_linear_in_d_o",
    "dO times -8 gives the gradients times -8, and no dO gives no gradient.",
    "backward(-8 dO) = -8 backward(dO), backward(0) = 0",
    "storage other than f16, no weight near underflow, of a sink neither",
    "Every gradient is a sum of elements of dO times what does not depend on "
    "it.",
    "Each side is within its own bound; bit for bit where the kernel declares "
    "power_of_two_invariant. 0 times anything finite is 0.",
    "(a) it is bitwise where that is claimed, (c) it reaches magnitudes that "
    "dO of one size does "
    "not, (d) its zeros need no oracle",
    80,
    Domain{.subject = Subject::kBackward,
           .free_data = false,
           .allows = kAllowGradients},
    of_backward_is_linear_in_d_o::constrain,
    of_backward_is_linear_in_d_o::plan,
    of_backward_is_linear_in_d_o::judge};

}  // namespace qkvet::properties
