// SPDX-License-Identifier: Apache-2.0
#include "studies/acceptance/defects.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace qkvet::studies {
namespace {

constexpr int64_t kPads = 24;

void zero(Output& output) { std::fill(output.o.begin(), output.o.end(), 0.0); }
void negate(Output& output) {
  for (double& x : output.o) x = -x;
}
void twice(Output& output) {
  for (double& x : output.o) x *= 2;
}
// Flips the sign of the largest element.
void flip_largest(Output& output) {
  double& largest = *std::max_element(
      output.o.begin(), output.o.end(),
      [](double a, double b) { return std::fabs(a) < std::fabs(b); });
  largest = -largest;
}

Recipe recipe(RecipeKind kind) { return make_recipe(kind); }
Recipe recipe(RecipeKind kind, int64_t parameter) { return {kind, parameter}; }

Recipes steep_scores(int64_t, int64_t) {
  return {recipe(RecipeKind::kLead), recipe(RecipeKind::kDescendingN, 8),
          recipe(RecipeKind::kOnehotN, 0)};
}
Recipes read_last_weights(int64_t n, int64_t d) {
  return {recipe(RecipeKind::kZero), recipe(RecipeKind::kNormal),
          recipe(RecipeKind::kOnehotN, std::max<int64_t>(n - d, 0))};
}
Recipes read_first_weights(int64_t, int64_t) {
  return {recipe(RecipeKind::kZero), recipe(RecipeKind::kNormal),
          recipe(RecipeKind::kOnehotN, 0)};
}
Recipes falling_scores(int64_t, int64_t) {
  return {recipe(RecipeKind::kLead), recipe(RecipeKind::kDescendingN),
          recipe(RecipeKind::kNormal)};
}
Recipes large_scores(int64_t, int64_t) {
  return {recipe(RecipeKind::kLargeN), recipe(RecipeKind::kLargeN),
          recipe(RecipeKind::kNormal)};
}
Recipes one_key_rules(int64_t n, int64_t) {
  return {recipe(RecipeKind::kLead), recipe(RecipeKind::kDominantN, n / 2),
          recipe(RecipeKind::kNormal)};
}
Recipes ones(int64_t, int64_t) {
  return {recipe(RecipeKind::kNormal), recipe(RecipeKind::kNormal),
          recipe(RecipeKind::kOne)};
}

constexpr const char* kRowsSumToOne = "v = 1: every output is 1";

constexpr Defect kDefects[] = {
    {"scale off",
     "The softmax scale is too large.",
     "q=lead, k=descending8, v=onehot: an output is a weight e^-x, which moves "
     "by x times the error of the scale",
     Measure::kAmount,
     {},
     nullptr,
     steep_scores},
    {"lost key",
     "The last key is lost.",
     "q=zero, v=onehot at the last keys: an output is the weight 1/n of one "
     "key, or 0",
     Measure::kLengths,
     {.lost_keys = 1},
     nullptr,
     read_last_weights},
    {"key counted twice",
     "The first key is counted twice.",
     "q=zero, v=onehot: an output is the weight of one key, 1/n or 2/(n + 1)",
     Measure::kLengths,
     {.first_key_counts = 2},
     nullptr,
     read_first_weights},
    {"unmasked pads",
     "24 pad keys of zeros after the last key are not masked.",
     "q=lead, k=descending: all scores but the first are below 0, which is the "
     "score of a pad",
     Measure::kLengths,
     {.pad_keys = kPads},
     nullptr,
     falling_scores},
    {"no maximum",
     "The maximum is not subtracted before the exponential; where scores are "
     "moderate the output is right all the same.",
     "q=large, k=large: scores beyond the range of exp",
     Measure::kLengths,
     {.subtracts_max = false},
     nullptr,
     large_scores},
    {"mean of V",
     "The output is the mean of V; Q and K are ignored.",
     "q=lead, k=dominant: one key takes all",
     Measure::kLengths,
     {.ignores_scores = true},
     nullptr,
     one_key_rules},
    {"all zero",
     "The output is zero.",
     kRowsSumToOne,
     Measure::kLengths,
     {},
     zero,
     ones},
    {"negated",
     "The output has the wrong sign.",
     kRowsSumToOne,
     Measure::kLengths,
     {},
     negate,
     ones},
    {"doubled",
     "The output is twice what it should be.",
     kRowsSumToOne,
     Measure::kLengths,
     {},
     twice,
     ones},
    {"one wrong sign",
     "One element, the largest, has the wrong sign.",
     kRowsSumToOne,
     Measure::kLengths,
     {},
     flip_largest,
     ones},
    {"sees one key more",
     "A causal row sees the key after its diagonal as well.",
     "q=zero, v=onehot: the weight of that key is 0",
     Measure::kSquare,
     {.diagonal_shift = 1},
     nullptr,
     read_first_weights},
    {"sees one key less",
     "A causal row does not see its diagonal (row 0 keeps its key).",
     "q=zero, v=onehot: the weight of that key is not 0",
     Measure::kSquare,
     {.diagonal_shift = -1},
     nullptr,
     read_first_weights}};

}  // namespace

std::span<const Defect> defects() { return kDefects; }

const Defect& defect_named(const char* name) {
  return *std::find_if(
      std::begin(kDefects), std::end(kDefects),
      [&](const Defect& one) { return std::strcmp(one.name, name) == 0; });
}

Output defective_output(const Kernel& kernel, const Defect& defect,
                        double amount) {
  Hooks hooks = defect.hooks;
  hooks.scale_error = amount;
  Output output = kernel.run(hooks);
  if (defect.spoil != nullptr) defect.spoil(output);
  return output;
}

}  // namespace qkvet::studies
