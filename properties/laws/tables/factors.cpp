// SPDX-License-Identifier: Apache-2.0
// Factors and rotations that one side undoes, or that the output follows.
#include <algorithm>
#include <cmath>
#include <string>

#include "properties/calls/call_pairs.h"
#include "properties/calls/quarter_turns.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_factors {

// ---- A factor of the queries, and of the scale

// One case in four changes the sign, too. A kernel may refuse a negative scale;
// the other cases are still asked.
double factor_of(const Case& value) { return value.seed % 4 == 3 ? -8 : 8; }

void scale_queries(const Case& value, int64_t, Inputs& inputs) {
  for (double& x : inputs.q) x *= factor_of(value);
}

void divide_scale(Case& value) {
  value.scale = static_cast<float>(double{*value.scale} / factor_of(value));
}

// Finite in half storage on both sides, and far from underflow.
bool is_scalable(const Recipe& recipe) {
  switch (recipe.kind) {
    case RecipeKind::kNormal:
    case RecipeKind::kZero:
    case RecipeKind::kOne:
    case RecipeKind::kLattice:
    case RecipeKind::kCount:
    case RecipeKind::kOnehotN:
      return true;
    default:
      return false;
  }
}

// A kernel may add the bias before the scale, divided by it. A bias near the
// end of f32 then overflows on one of the two sides.
bool is_far_from_overflow(const Recipe& bias) {
  return !is_of_bias_alone(bias.kind) ||
         std::fabs(masking_number(bias)) < 0x1p40;
}

Case with_moderate_scale(Case value) {
  if (value.score_bias && !is_far_from_overflow(*value.score_bias))
    value.score_bias = make_recipe(RecipeKind::kMaskingN);
  for (Recipe* recipe : {&value.q, &value.k})
    if (!is_scalable(*recipe)) *recipe = make_recipe(RecipeKind::kNormal);
  value = without_set_values(std::move(value), TensorName::kQ);
  value = without_set_values(std::move(value), TensorName::kK);
  const float scale = std::fabs(value.scale.value_or(0));
  if (!(scale > 0x1p-40f && scale < 0x1p40f)) value.scale = 1.0f;
  return value;
}

void name_factor(const JudgeInput& input, CallPair& pair) {
  if (factor_of(input.value) < 0)
    pair.second_name = "-8 q and minus an eighth of the scale";
}

// ---- A factor of the keys, and its inverse of the queries

int64_t exponent_of_keys(const Case& value) {
  constexpr int64_t kMost = 10;
  const int64_t n = pick_by_seed(value.seed, 2 * kMost) - kMost;
  return n < 0 ? n : n + 1;
}

void scale_keys(const Case& value, int64_t, Inputs& inputs) {
  const auto n = static_cast<int>(exponent_of_keys(value));
  for (double& x : inputs.k) x = std::ldexp(x, n);
  for (double& x : inputs.q) x = std::ldexp(x, -n);
}

// Only small integers and quarters remain the same in f16.
Case with_scalable_keys(Case value) {
  const bool half =
      value.q_dtype == Dtype::kF16 || value.kv_dtype == Dtype::kF16;
  for (Recipe* recipe : {&value.q, &value.k})
    if (half || !is_scalable(*recipe))
      *recipe = make_recipe(half ? RecipeKind::kLattice : RecipeKind::kNormal);
  value = without_set_values(std::move(value), TensorName::kQ);
  return without_set_values(std::move(value), TensorName::kK);
}

void name_exponent(const JudgeInput& input, CallPair& pair) {
  const std::string power =
      "2^" + std::to_string(exponent_of_keys(input.value));
  pair.second_text = power + " k and q / " + power;
}

// ---- Scaled values

// Negative, because a sign is no more than a factor.
constexpr double kFactor = -8;
// Below these, scaled numbers could be subnormal on one side only.
constexpr double kLeastWeight = 0x1p-60;
constexpr double kLeastOutput = 0x1p-10;

void scale_values(const Case&, int64_t, Inputs& inputs) {
  for (double& value : inputs.v) value *= kFactor;
}

// Small integers: times eight they are small integers again.
Case with_lattice_values(Case value) {
  value.v = make_recipe(RecipeKind::kLattice);
  return without_set_values(std::move(value), TensorName::kV);
}

void with_weights(const Case&, const KernelInfo&, Plan& plan) {
  plan.calls[0].needs_truth = true;
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

void far_from_underflow(const JudgeInput& input, CallPair& pair) {
  pair.factor = kFactor;
  if (!claims_same_bits(input.kernel, QKVET_FLAG_POWER_OF_TWO_INVARIANT))
    return;
  const auto read = [&](size_t call) {
    return as_doubles(input.calls[call].outcome->o, input.value.o_dtype);
  };
  pair.map = [&input, once = read(0),
              scaled = read(1)](const Element& at) -> std::optional<Element> {
    if (at.tensor != TensorName::kO) return at;
    const Shape& s = input.value.shape;
    const auto n =
        static_cast<size_t>(((at.b * s.H + at.h) * s.Tq + at.i) * s.dv + at.x);
    // The rest of a sum that cancels may be subnormal in half storage.
    const bool tiny = std::fabs(once[n]) < kLeastOutput &&
                      std::fabs(scaled[n]) < -kFactor * kLeastOutput;
    if (tiny || !weights_are_moderate(input, at)) return std::nullopt;
    return at;
  };
}

// ---- Rotations

// All positions move on by `ahead`.
void move_on(const Case& value, int64_t ahead, Inputs& inputs) {
  quarter_turns(value, rope_rows(value) + ahead, inputs);
  for (auto* positions : {&inputs.q_positions, &inputs.k_positions})
    for (int64_t& position : *positions) position += ahead;
}

void exact_tables(const Case& value, int64_t, Inputs& inputs) {
  quarter_turns(value, rope_rows(value), inputs);
}

void turned_inputs(const Case& value, int64_t, Inputs& inputs) {
  turn_by_hand(value, inputs);
}

Case with_rotation_in_order(Case value) {
  value = with_rotation(std::move(value));
  value.rope.random_positions = false;
  return value;
}

void only_with_pairs(const Case& value, Plan& plan) {
  if (value.rope.style == RopeStyle::kNone)
    plan.not_applicable = "an odd number of channels has no pairs";
}

void plan_distances(const Case& value, const KernelInfo&, Plan& plan) {
  constexpr uint64_t kMost = 9;
  only_with_pairs(value, plan);
  plan.calls[0].edit = move_on;
  plan.calls[1].argument = static_cast<int64_t>(1 + value.seed % kMost);
}

void plan_turns(const Case& value, const KernelInfo&, Plan& plan) {
  only_with_pairs(value, plan);
  plan.calls[0].edit = turned_inputs;
  plan.calls[0].variant.emplace(value).rope = {};
}

constexpr Law kRows[] = {
    {.id = "scale_moves_to_queries",
     .sentence =
         "A factor moves between the queries and the scale: 8 q with an eighth "
         "of the scale gives the same, and so does -8 q with minus an eighth.",
     .formula =
         "forward(8 q, k, v, c / 8) = forward(q, k, v, c), the same for -8",
     .precondition = "a given scale; data of moderate size",
     .reason = "Only the product of q and the scale occurs in the scores.",
     .rounding = "Each side is within its own bound of the same number; bit "
                 "for bit where the kernel declares power_of_two_invariant.",
     .kept_for = kBitwiseIfClaimed,
     .rank = 180,
     .domain = {.allows = kAllowAll & ~QKVET_OPTION_ROPE},
     .constrain = with_moderate_scale,
     .relation = {.first = "q and the scale as given",
                  .second = "8 q and an eighth of the scale",
                  .looks = "the scale is ignored, fixed, or rounded on the way",
                  .variant = divide_scale,
                  .edit = scale_queries,
                  .claim = QKVET_FLAG_POWER_OF_TWO_INVARIANT,
                  .pair = name_factor}},
    {.id = "magnitude_moves_to_queries",
     .sentence = "A power of two moves between the keys and the queries: only "
                 "their products count, not how large the keys are.",
     .formula = "forward(q / 2^n, 2^n k, v) = forward(q, k, v), "
                "1 <= |n| <= 10",
     .precondition = "data of moderate size",
     .reason = "Only the products of q and k occur in the scores.",
     .rounding = kNeverBitwise,
     .kept_for = "(c) it reaches keys of every magnitude from 2^-10 to 2^11, "
                 "(d) it needs no oracle",
     .rank = 185,
     .domain = {.own_values = true, .allows = kAllowListsAndFields},
     .constrain = with_scalable_keys,
     .relation = {.first = "k and q as given",
                  .second = "2^n k and q / 2^n",
                  .looks = "keys of this size are computed in another way",
                  .edit = scale_keys,
                  .pair = name_exponent}},
    {.id = "scaled_values_scale_output",
     .sentence = "V times -8 gives O times -8.",
     .formula = "forward(q, k, -8 v) = -8 forward(q, k, v)",
     .precondition = "nothing; of kernels that claim the bits, no weight and "
                     "no output near underflow",
     .reason = "The output is linear in V.",
     .rounding = "Each side is within its own bound; bit for bit where the "
                 "kernel declares power_of_two_invariant.",
     .kept_for = "(a) it is bitwise where that is claimed, (c) it reaches "
                 "magnitudes that V of one size does not",
     .rank = 170,
     .domain = {.free_v = false, .allows = kAllowListsAndFields},
     .constrain = with_lattice_values,
     .relation = {.first = "-8 times the output for V",
                  .second = "the output for -8 V",
                  .looks = "a value is cut off, or rounded on a grid of its "
                           "own, or by its sign",
                  .edit = scale_values,
                  .claim = QKVET_FLAG_POWER_OF_TWO_INVARIANT,
                  .more_plan = with_weights,
                  .pair = far_from_underflow}},
    {.id = "rope_sees_only_distances",
     .sentence = "Moving all positions on by the same number changes nothing.",
     .formula = "forward(q at p, k at r) = forward(q at p + n, k at r + n)",
     .precondition = "a rotation, positions in order; the law makes the tables",
     .reason = "Both sides of a score are turned by the same angle, which "
               "keeps their product (Su et al., RoFormer, 3.2.1).",
     .rounding = "Quarter turns round nothing, so both sides are within the "
                 "bound of one problem.",
     .kept_for = "(c) it reaches positions far from where the rows are, (d) it "
                 "needs no oracle",
     .rank = 370,
     .domain = {.allows = kAllowAll, .about = QKVET_OPTION_ROPE},
     .constrain = with_rotation_in_order,
     .relation = {.first = "at these positions",
                  .second = "some positions on",
                  .looks = "queries and keys do not move together",
                  .edit = move_on,
                  .needs = QKVET_OPTION_ROPE,
                  .missing = "a rotation (RoPE) is not declared",
                  .more_plan = plan_distances}},
    {.id = "rope_turns_pairs_of_channels",
     .sentence = "A rotation turns each pair of channels of q and k by the "
                 "angle of its position.",
     .formula = "forward(q, k, rope) = forward(R q, R k), R by quarter turns",
     .precondition = "a rotation; the law makes its tables",
     .reason = "A quarter turn exchanges two channels and changes one sign.",
     .rounding = "It rounds nothing, so both sides are within the bound of one "
                 "problem; never bitwise, for signs of zero differ.",
     .kept_for = "(b) neither side has an error of the rotation, (d) it needs "
                 "no oracle",
     .rank = 360,
     .domain = {.own_values = true,
                .allows = kAllowUnshared,
                .about = QKVET_OPTION_ROPE},
     .constrain = with_rotation,
     .relation = {.first = "rotated beforehand",
                  .second = "rotated by the kernel",
                  .looks = "channels are paired or turned in another way, or "
                           "stand at other positions",
                  .edit = exact_tables,
                  .needs = QKVET_OPTION_ROPE,
                  .missing = "a rotation (RoPE) is not declared",
                  .more_plan = plan_turns}},
};

}  // namespace of_factors

extern constinit const LawTable factors_laws{of_factors::kRows};

}  // namespace qkvet::properties
