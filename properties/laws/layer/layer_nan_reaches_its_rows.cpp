// SPDX-License-Identifier: Apache-2.0
// One number of x is NaN, and no matrix holds a 0 that a product might skip:
// the token's q, k and v are NaN, and so is every row that sees the token.
#include <cmath>
#include <limits>

#include "properties/calls/layer_calls.h"
#include "properties/conventions/constrain.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {
namespace of_layer_nan_reaches_its_rows {

int64_t token_of(const Case& value) {
  return pick_by_seed(value.seed, value.shape.B * value.shape.Tq);
}

void put_nan(const Case& value, int64_t, Inputs& inputs) {
  const int64_t D = value.shape.D;
  const int64_t at = token_of(value) * D + pick_by_seed(value.seed / 3, D);
  inputs.x[static_cast<size_t>(at)] = std::numeric_limits<double>::quiet_NaN();
}

Case constrain(Case value) {
  value = constrain_layer(std::move(value));
  value.w = {RecipeKind::kScaledN, 1};
  value.set.clear();
  return value;
}

Plan plan(const Case&, const KernelInfo& kernel) {
  Plan plan;
  if (kernel.dialect.visible_nan == QKVET_VISIBLE_NAN_MAY_VANISH)
    plan.unsupported = "the kernel declares that a visible NaN may vanish";
  plan.calls.push_back(layer_call(kernel));
  plan.calls[0].edit = put_nan;
  plan.calls[0].needs_truth = false;
  return plan;
}

Judgement judge(const JudgeInput& input) {
  Judgement judgement;
  const Case& value = input.value;
  const Shape& s = value.shape;
  const int64_t token = token_of(value);
  const std::vector<double> y =
      as_doubles(input.calls[0].outcome->y, value.o_dtype);
  for (size_t n = 0; n < y.size(); ++n) {
    const int64_t row = static_cast<int64_t>(n) / s.D;
    const bool sees = row / s.Tq == token / s.Tq &&
                      (value.causal == Causal::kNone || row >= token);
    if (!sees) continue;
    ++judgement.compared;
    if (std::isnan(y[n])) continue;
    Finding finding;
    finding.where = "y[b=" + std::to_string(row / s.Tq) +
                    ",t=" + std::to_string(row % s.Tq) +
                    ",c=" + std::to_string(static_cast<int64_t>(n) % s.D) + "]";
    finding.expected = "nan: the row sees a token that holds NaN";
    finding.actual = number_text(y[n], value.o_dtype);
    finding.ratio = std::numeric_limits<double>::infinity();
    finding.looks = "NaN in x vanishes on its way";
    add_failure(judgement, std::move(finding));
  }
  return judgement;
}

}  // namespace of_layer_nan_reaches_its_rows

extern constinit const Law layer_nan_reaches_its_rows{
    "layer_nan_reaches_its_rows",
    "A NaN in a token reaches every row of a layer that sees the token.",
    "x[t] = nan, i sees t => y[i] = nan",
    "matrices without a 0; the kernel does not declare that NaN may vanish",
    "A sum with NaN in it is NaN, and so is its exponential.",
    "Nothing is rounded: a number is NaN or it is not.",
    "(a) it is exact, (c) it reaches what agreement never draws",
    75,
    Domain{.subject = Subject::kLayer,
           .free_data = false,
           .allows = kLayerOptions},
    of_layer_nan_reaches_its_rows::constrain,
    of_layer_nan_reaches_its_rows::plan,
    of_layer_nan_reaches_its_rows::judge};

}  // namespace qkvet::properties
