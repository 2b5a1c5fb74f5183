// SPDX-License-Identifier: Apache-2.0
// Cases about gradients: those of attention or a layer, and dO or dY.
#include "core/base/philox.h"
#include "properties/cases/draw.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

// Now and then every row only sees keys of very low scores: its lse is far
// below zero, and exp(score - lse) is right only if lse is subtracted first.
void lower_scores(const Scope& scope, const Law& law, Case& value) {
  constexpr int64_t kQuarters = 8;
  const uint64_t allowed = allowed_in(law.domain) & allowed_by(scope);
  if ((allowed & QKVET_OPTION_WINDOW) == 0 || value.causal == Causal::kNone)
    return;
  value.window = Window{1, 0};
  value.q = make_recipe(RecipeKind::kLead);
  value.k = {RecipeKind::kDescendingN, kQuarters};
}

// If scores are large, the error of a score decides which key wins, and the
// end-to-end bound is uninformative. Only some small layers have such scores.
void keep_scores_small(Draw& draw, Case& value) {
  constexpr int64_t kFew = 64;
  const Shape& s = value.shape;
  if (s.B * s.Tq * s.D <= kFew && draw.chance(20)) return;
  if (value.x.kind == RecipeKind::kCancellingN)
    value.x = make_recipe(RecipeKind::kNormal);
  const bool small_x = value.x.kind == RecipeKind::kSmall ||
                       value.x.kind == RecipeKind::kOnehotN;
  if (!small_x && value.w.kind != RecipeKind::kOnehotN)
    value.w = {RecipeKind::kScaledN, 2};
}

// The gradient of a bias has columns of all members of a packed batch, which
// few other options exercise. Drawn from a separate stream, so that other cases
// keep their bytes.
void add_bias_to_packed(const Scope& scope, const Law& law, Case& value) {
  constexpr uint32_t kStream = 0xB1A5;
  uint32_t next = 0;
  Draw draw([&] { return philox_u64(value.seed, kStream, next++, 0); });
  const uint64_t allowed = allowed_in(law.domain) & allowed_by(scope);
  if (!value.cu_q.empty() && !value.score_bias &&
      (allowed & QKVET_OPTION_BIAS) != 0 && draw.chance(50))
    draw_option(draw, QKVET_OPTION_BIAS, value);
}

Recipe draw_gradient(Draw& draw) {
  constexpr std::array<Recipe, 10> kGradients = {{{RecipeKind::kNormal, 0},
                                                  {RecipeKind::kNormal, 0},
                                                  {RecipeKind::kNormal, 0},
                                                  {RecipeKind::kLattice, 0},
                                                  {RecipeKind::kLattice, 0},
                                                  {RecipeKind::kOnehotN, 0},
                                                  {RecipeKind::kOne, 0},
                                                  {RecipeKind::kSmall, 0},
                                                  {RecipeKind::kCancellingN, 4},
                                                  {RecipeKind::kHeavy, 0}}};
  return draw.of(kGradients);
}

}  // namespace

Case draw_backward(Draw& draw, const Law& law, const Scope& scope) {
  Case value = draw_unconstrained(draw, law, scope, /*backward=*/true);
  if (draw.chance(8)) lower_scores(scope, law, value);
  add_bias_to_packed(scope, law, value);
  value.d_o = draw_gradient(draw);
  return constrained(law, std::move(value));
}

Case draw_layer_backward(Draw& draw, const Law& law, const Scope& scope) {
  Case value = draw_unconstrained_layer(draw, scope, /*backward=*/true);
  keep_scores_small(draw, value);
  value.d_o = draw_gradient(draw);
  return constrained(law, std::move(value));
}

}  // namespace qkvet::properties
