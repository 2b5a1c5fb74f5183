// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "properties/calls/call_pairs.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"

namespace qkvet::properties {
namespace of_scaled_values_scale_output {

// Negative, because a sign is no more than a factor.
constexpr double kFactor = -8;
// Below these, scaled numbers could be subnormal on one side only.
constexpr double kLeastWeight = 0x1p-60;
constexpr double kLeastOutput = 0x1p-10;

void scale_up(const Case&, int64_t, Inputs& inputs) {
  for (double& value : inputs.v) value *= kFactor;
}

// Small integers: times eight they are small integers again.
Case constrain(Case value) {
  value.v = make_recipe(RecipeKind::kLattice);
  return without_set_values(std::move(value), TensorName::kV);
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan = plan_power_of_two(kernel, scale_up);
  plan.calls[0].needs_truth = true;  // for the weights
  return plan;
}

// No product of a weight and a value is near underflow.
bool weights_are_moderate(const JudgeInput& input, const Element& at) {
  const Shape& s = input.value.shape;
  const int64_t row = (at.b * s.H + at.h) * s.Tq + at.i;
  const double* const weights =
      input.calls[0].truth->oracle.weights.data() + row * s.Tk;
  return std::all_of(weights, weights + s.Tk, [](double weight) {
    return weight == 0 || weight >= kLeastWeight;
  });
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Shape& s = input.value.shape;
  const auto read = [&](size_t call) {
    return as_doubles(input.calls[call].outcome->o, input.value.o_dtype);
  };
  const bool bitwise =
      claims_same_bits(input.kernel, QKVET_FLAG_POWER_OF_TWO_INVARIANT);
  const std::vector<double> once = read(0), scaled = read(1);
  CallPair pair;
  pair.first_name = "-8 times the output for V";
  pair.second_name = "the output for -8 V";
  pair.factor = kFactor;
  pair.map = [&](const Element& at) -> std::optional<Element> {
    if (at.tensor != TensorName::kO || !bitwise) return at;
    const auto n =
        static_cast<size_t>(((at.b * s.H + at.h) * s.Tq + at.i) * s.dv + at.x);
    // The rest of a sum that cancels may be subnormal in half storage.
    const bool tiny = std::fabs(once[n]) < kLeastOutput &&
                      std::fabs(scaled[n]) < -kFactor * kLeastOutput;
    if (tiny || !weights_are_moderate(input, at)) return std::nullopt;
    return at;
  };
  pair.looks =
      "a value is cut off, or rounded on a grid of its own, or by its sign";
  compare_as_claimed(input, pair, QKVET_FLAG_POWER_OF_TWO_INVARIANT, judgement);
  return judgement;
}

}  // namespace of_scaled_values_scale_output

extern constinit const Law scaled_values_scale_output{
    "scaled_values_scale_output",
    "V times -8 gives O times -8.",
    "forward(q, k, -8 v) = -8 forward(q, k, v)",
    "nothing; of kernels that claim the bits, no weight and no output near "
    "underflow",
    "The output is linear in V.",
    "Each side is within its own bound; bit for bit where the kernel declares "
    "power_of_two_invariant.",
    "(a) it is bitwise where that is claimed, (c) it reaches magnitudes that V "
    "of one size "
    "does not",
    170,
    Domain{.free_v = false,
           .allows = kAllowAll | QKVET_OPTION_KEY_LISTS | kAllowFields},
    of_scaled_values_scale_output::constrain,
    of_scaled_values_scale_output::plan,
    of_scaled_values_scale_output::judge};

}  // namespace qkvet::properties
