// SPDX-License-Identifier: Apache-2.0
// Merges: most callers have two states of a row, and splits of long keys make
// many.
#include <algorithm>

#include "core/case/merge.h"
#include "properties/cases/draw.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

int64_t draw_states(Draw& draw, SizeClass size) {
  const int64_t percent = draw.range(0, 99);
  if (percent < 40) return 2;
  if (percent < 85) return draw.range(1, 6);
  return draw_extent(draw,
                     size == SizeClass::kSmall ? size : SizeClass::kMedium);
}

Shape draw_merge_shape(Draw& draw, const Scope& scope) {
  constexpr std::array<int64_t, 6> kManyRows = {257,  512,  513,
                                                1024, 1025, 2049};
  const SizeClass size = draw_size(draw, scope.largest);
  Shape s;
  if (size == SizeClass::kLong) {
    s.B = draw.of(kManyRows);
    s.H = draw.range(1, 2);
    s.Tk = draw.range(2, 3);
    s.dv = draw.range(1, 8);
    return s;
  }
  s.B =
      draw_extent(draw, size == SizeClass::kSmall ? size : SizeClass::kMedium);
  s.H = draw.range(1, 4);
  s.Tk = draw_states(draw, size);
  s.dv = draw_extent(draw, size);
  return s;
}

// As large as the logits of real models, and larger than an exponential can
// take.
Recipe draw_lse(Draw& draw) {
  constexpr std::array<Recipe, 10> kLse = {{{RecipeKind::kNormal, 0},
                                            {RecipeKind::kNormal, 0},
                                            {RecipeKind::kLattice, 0},
                                            {RecipeKind::kLargeN, 1},
                                            {RecipeKind::kLargeN, 3},
                                            {RecipeKind::kLargeN, 6},
                                            {RecipeKind::kOffsetN, 5},
                                            {RecipeKind::kOffsetN, 7},
                                            {RecipeKind::kZero, 0},
                                            {RecipeKind::kHeavy, 0}}};
  return draw.of(kLse);
}

}  // namespace

Case draw_merge(Draw& draw, const Law& law, const Scope& scope) {
  Case value;
  value.merge = true;
  draw_dtype(draw, scope, value);
  value.shape = draw_merge_shape(draw, scope);
  apply_pins(scope, value);  // the lengths below are up to Tk
  Shape& s = value.shape;
  const bool few_rows = s.B <= static_cast<int64_t>(kMaxMembers);
  if (few_rows && draw.chance(35))
    for (int64_t t = 0; t < s.B; ++t)
      value.kv_len.push_back(draw.range(0, s.Tk));
  constexpr std::array<Layout, 3> kLayouts = {Layout::kBthd, Layout::kGaps,
                                              Layout::kApart};
  if (draw.chance(50)) value.layout = draw.of(kLayouts);
  if (value.layout == Layout::kGaps && draw.chance(20))
    value.layout = Layout::kFar;
  draw_data(draw, value);
  value.score_bias = draw_lse(draw);
  draw_edges(law, value);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
  constrain_to_merge(value);
  return constrained(law, std::move(value));
}

}  // namespace qkvet::properties
