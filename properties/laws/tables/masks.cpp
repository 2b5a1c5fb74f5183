// SPDX-License-Identifier: Apache-2.0
// Rules, masks and biases that hide the same pairs, and biases that add the
// same numbers.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/base/half.h"
#include "properties/calls/gradient_calls.h"
#include "properties/calls/option_forms.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/empty_row.h"
#include "properties/judging/law_texts.h"

namespace qkvet::properties {
namespace of_masks {

// ---- Rules as masks

// A window counts from the causal diagonal, so that it goes with the rule.
void mask_for_causal(Case& value) {
  value = with_own_mask(std::move(value));
  value.window.reset();
  value.causal = Causal::kNone;
}

Case with_window(Case value) {
  if (!value.window) value.window = Window{-1, 0};
  return value;
}

void mask_for_window(Case& value) {
  value = with_own_mask(std::move(value));
  value.window.reset();
}

// ---- Slopes as a bias

// A power of two for each head, and each row of slopes: its products with
// distances are exact in every storage type.
double slope_of(const Case& value, int64_t row, int64_t h) {
  const int64_t n = pick_by_seed(value.seed, 8) + h + 3 * row;
  return std::ldexp(1.0, static_cast<int>(-1 - n % 8));
}

void exact_slopes(const Case& value, int64_t, Inputs& inputs) {
  const int64_t H = value.shape.H;
  for (int64_t n = 0; n < std::ssize(inputs.slopes); ++n)
    inputs.slopes[static_cast<size_t>(n)] = slope_of(value, n / H, n % H);
}

void slopes_as_bias(const Case& value, int64_t, Inputs& inputs) {
  const Shape& s = value.shape;
  const Visibility visibility(value, inputs);
  inputs.slopes.clear();
  inputs.bias.clear();
  for (int64_t b = 0; b < s.B; ++b)
    for (int64_t h = 0; h < s.H; ++h)
      for (int64_t i = 0; i < s.Tq; ++i)
        for (int64_t j = 0; j < s.Tk; ++j) {
          const int64_t distance = std::abs(visibility.diagonal(b, i) - j);
          const int64_t row = slope_row(value, b, i);
          inputs.bias.push_back(-slope_of(value, row, h) *
                                static_cast<double>(distance));
        }
}

Case with_slopes(Case value) {
  if (!value.slopes) value.slopes = make_recipe(RecipeKind::kOne);
  return without_set_values(std::move(value), TensorName::kSlopes);
}

void bias_for_slopes(Case& value) {
  value = with_own_bias(std::move(value));
  value.slopes.reset();
  value.member_slopes = false;
}

void plan_slopes(const Case& value, const KernelInfo&, Plan& plan) {
  plan.calls[0].edit = exact_slopes;
  // Rows that count are no further from a key than the longer extent.
  const int64_t longest = std::max(value.shape.Tq, value.shape.Tk);
  if (static_cast<double>(longest) * unit_roundoff(value.q_dtype) > 1)
    plan.not_applicable = "distances are not exact in the bias's type";
}

// ---- A mask as a bias of low numbers

// The term added to the score of hidden pair `n`: -infinity, or a number that
// is in use, such as the lowest of the type; one for all pairs, or one for
// each. Even if scores differ by half of the first, exp() of the rest is 0 in
// double: both calls have one truth.
double hidden_of(const Case& value, uint64_t n) {
  const double lowest = -largest_finite(value.q_dtype);  // that of a bias
  const std::array<double, 4> numbers = {
      -1e4, std::max(-1e9, lowest), lowest,
      -std::numeric_limits<double>::infinity()};
  const uint64_t which = value.seed % (numbers.size() + 1);
  return numbers[which < numbers.size() ? which
                                        : (n * 7 + n / 5) % numbers.size()];
}
constexpr double kLargestScore = 2000;

bool is_moderate(const Recipe& recipe) {
  switch (recipe.kind) {
    case RecipeKind::kLargeN:
    case RecipeKind::kOffsetN:
    case RecipeKind::kDominantN:
    case RecipeKind::kHeavy:
    case RecipeKind::kAscendingN:
    case RecipeKind::kDescendingN:
    case RecipeKind::kCancellingN:
      return false;
    default:
      return true;
  }
}

Case with_moderate_scores(Case value) {
  for (Recipe* recipe : {&value.q, &value.k})
    if (!is_moderate(*recipe)) *recipe = make_recipe(RecipeKind::kNormal);
  value = without_set_values(std::move(value), TensorName::kQ);
  value = without_set_values(std::move(value), TensorName::kK);
  if (value.mask.kind == MaskKind::kNone)
    value.mask = {MaskKind::kButN, 0, kOwnAll};
  return value;
}

void mask_to_bias(const Case& value, int64_t, Inputs& inputs) {
  inputs.bias.clear();
  for (const uint8_t attends : inputs.mask)
    inputs.bias.push_back(attends != 0 ? 0
                                       : hidden_of(value, inputs.bias.size()));
  inputs.mask.clear();
}

void only_moderate_scores(const Case& value, const KernelInfo&, Plan& plan) {
  // Elements of q and k are below 8 in size.
  const double largest =
      std::fabs(scale_of(value)) * 64 * static_cast<double>(value.shape.d);
  if (largest > kLargestScore &&
      !(value.q.kind == RecipeKind::kZero || value.k.kind == RecipeKind::kZero))
    plan.not_applicable = "scores may be of the size of the bias";
}

// ---- Masks in a few numbers

void fields_as_mask(const Case& value, int64_t argument, Inputs& inputs) {
  write_visible_pairs(value, argument, inputs);
  inputs.segments_q.clear();
  inputs.segments_k.clear();
  inputs.full_ranges.clear();
  inputs.tree_mask.clear();
}

// A mask replaces the rules that ranges are composed with. Positions that were
// counted from a diagonal are then counted from the last key.
Case with_replaceable_fields(Case value) {
  value = with_mask_fields(std::move(value));
  if (value.fields.ranges > 0 && value.causal == Causal::kTopLeft)
    value.slopes.reset();
  return value;
}

void mask_for_fields(Case& value) {
  if (value.fields.ranges > 0) {
    value.causal = Causal::kNone;
    value.window.reset();
  }
  value = with_own_mask(std::move(value));
  value.fields = {};
  value.chunk = 0;
}

void plan_fields(const Case&, const KernelInfo& kernel, Plan& plan) {
  plan.calls[1].argument = ranges_in_window(kernel.dialect) ? 1 : 0;
}

// ---- Gradients

Case with_mask(Case value) {
  if (value.mask.kind == MaskKind::kNone)
    value.mask = {MaskKind::kEmptyRowN, 0, kOwnAll};
  return value;
}

// The value of a row without a key may depend on why it has none.
void only_one_empty_row(const Case&, const KernelInfo& kernel, Plan& plan) {
  const EmptyRow by_mask = empty_row_of(kernel.dialect, EmptyBy::kMask);
  for (const EmptyBy by : {EmptyBy::kBias, EmptyBy::kRule, EmptyBy::kLength}) {
    const EmptyRow other = empty_row_of(kernel.dialect, by);
    if (other.o != by_mask.o || other.lse != by_mask.lse)
      plan.not_applicable = "a row without a key depends on why it has none";
  }
}

void bias_for_mask(Case& value) { value = with_bias_for_mask(value); }

constexpr Law kRows[] = {
    {.id = "causal_equals_mask",
     .sentence = "The causal rule equals a mask: it only hides pairs.",
     .formula = "forward(causal) = forward(mask), mask[i,j] = j <= D(i)",
     .precondition = "causal, without ALiBi; the kernel takes a mask as well",
     .reason = "The causal rule determines only which keys a row sees; ALiBi "
               "and windows count from its diagonal as well.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 380,
     .domain = {.causal = true,
                .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_BIAS |
                          QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                          kAllowMemory},
     .constrain = with_masked_key,
     .relation = {.first = "the causal rule",
                  .second = "a mask of the same pairs",
                  .looks =
                      "the causal rule and the mask do not hide the same keys",
                  .variant = mask_for_causal,
                  .edit = write_visible_pairs,
                  .needs = QKVET_OPTION_MASK,
                  .missing = "a mask is not declared"}},
    {.id = "window_equals_mask",
     .sentence = "A window equals a mask: it only hides pairs.",
     .formula = "forward(window L.R) = forward(mask), mask[i,j] = D(i) - L <= "
                "j <= D(i) + R",
     .precondition = "a window; the kernel takes a mask as well",
     .reason = "A window determines only which keys a row sees.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 350,
     .domain = {.allows = kAllowAll, .about = QKVET_OPTION_WINDOW},
     .constrain = with_window,
     .relation = {.first = "a window",
                  .second = "a mask of the same pairs",
                  .looks = "the window begins or ends at another key, or is "
                           "counted from another diagonal",
                  .variant = mask_for_window,
                  .edit = write_visible_pairs,
                  .needs = QKVET_OPTION_MASK,
                  .missing = "a mask is not declared"}},
    {.id = "mask_equals_bias",
     .sentence =
         "A mask equals a bias of 0 where a pair attends and of -10000, -1e9, "
         "the lowest number of the type or -infinity where it does not, be it "
         "one of them or another one at every pair.",
     .formula =
         "forward(mask) = forward(bias), bias = mask ? 0 : -10000 or lower",
     .precondition = "a mask; rows that see a key; moderate scores; the kernel "
                     "takes a bias as well",
     .reason = "exp(-10000 + what scores can differ by) is 0.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 390,
     .domain = {.allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_SINK |
                          kAllowMemory,
                .about = QKVET_OPTION_MASK},
     .constrain = with_moderate_scores,
     .relation = {.first = "a mask",
                  .second = "a bias of 0 and a number far below all scores",
                  .looks = "mask and bias do not hide the same keys",
                  .variant = bias_for_mask,
                  .edit = mask_to_bias,
                  .needs = QKVET_OPTION_BIAS,
                  .missing = "a bias is not declared",
                  .more_plan = only_moderate_scores}},
    {.id = "gradient_masks_equal_biases",
     .sentence = "A mask has the gradient of a bias of -infinity at the same "
                 "pairs, also in rows that see no key.",
     .formula = "backward(mask) = backward(bias), bias = mask ? 0 : -infinity",
     .precondition = "a mask, and no bias; the kernel takes a bias as well",
     .reason =
         "exp(-infinity) is 0, and a row that hides all its keys adds nothing.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 58,
     .domain = {.subject = Subject::kBackward,
                .allows = kAllowGradients &
                          ~(QKVET_OPTION_BIAS | QKVET_OPTION_SOFTCAP),
                .about = QKVET_OPTION_MASK},
     .constrain = with_mask,
     .relation = {.first = "a mask",
                  .second = "a bias of 0 and -infinity",
                  .looks = "a bias of -infinity does not hide its pair as a "
                           "mask does: the difference of two infinities is NaN",
                  .variant = bias_for_mask,
                  .edit = mask_to_infinite_bias,
                  .needs = QKVET_OPTION_BIAS,
                  .missing = "a bias is not declared",
                  .more_plan = only_one_empty_row}},
    {.id = "mask_fields_equal_masks",
     .sentence = "Segments, ranges, chunks and a tree of drafts equal a mask "
                 "of the same pairs: they only determine what a row sees.",
     .formula = "forward(segments, full_ranges, chunk, tree_mask) = "
                "forward(mask), of the same pairs",
     .precondition =
         "segments, ranges, a chunk or a tree; the kernel takes a mask as well",
     .reason = "Which keys a row sees is all that they say; how ranges and a "
               "window go together is the dialect's ranges_and_window.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 351,
     .domain = {.allows = kAllowListsAndFields, .about = kAllowFields},
     .constrain = with_replaceable_fields,
     .relation = {.first = "in a few numbers",
                  .second = "as a mask of the same pairs",
                  .looks = "a row sees other keys than segments, ranges, chunk "
                           "or tree leave it",
                  .variant = mask_for_fields,
                  .edit = fields_as_mask,
                  .needs = QKVET_OPTION_MASK,
                  .missing = "a mask is not declared",
                  .more_plan = plan_fields}},
    {.id = "alibi_equals_bias",
     .sentence = "ALiBi equals the bias that it defines.",
     .formula =
         "forward(slopes) = forward(bias), bias[h,i,j] = -slope[h] |D(i) - j|",
     .precondition =
         "ALiBi, no bias beside it; the kernel takes a bias as well",
     .reason = "Slopes that are powers of two times distances below 256 are "
               "exact, and both are added to the score.",
     .rounding = kNeverBitwise,
     .kept_for = kPathsWithoutOracle,
     .rank = 420,
     .domain = {.free_data = false,
                .allows = QKVET_OPTION_ROPE | kAllowPairs | QKVET_OPTION_ALIBI |
                          QKVET_OPTION_SOFTCAP | QKVET_OPTION_SINK |
                          kAllowMemory,
                .about = QKVET_OPTION_ALIBI},
     .constrain = with_slopes,
     .relation = {.first = "ALiBi",
                  .second = "its bias written out",
                  .looks = "the distance is counted from another diagonal, or "
                           "the slope is another head's",
                  .variant = bias_for_slopes,
                  .edit = slopes_as_bias,
                  .needs = QKVET_OPTION_BIAS,
                  .missing = "a bias is not declared",
                  .more_plan = plan_slopes}},
};

}  // namespace of_masks

extern constinit const LawTable masks_laws{of_masks::kRows};

}  // namespace qkvet::properties
