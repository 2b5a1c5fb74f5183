// SPDX-License-Identifier: Apache-2.0
#include "properties/cases/draw.h"

#include <algorithm>
#include <array>

#include "core/base/philox.h"
#include "properties/conventions/domain.h"

namespace qkvet::properties {
namespace {

int64_t draw_parameter(Draw& draw, RecipeKind kind, const Shape& shape) {
  const int64_t last_key = std::max<int64_t>(shape.Tk, 1) - 1;
  switch (kind) {
    case RecipeKind::kOnehotN:
      return draw.chance(50) ? 0 : draw.range(0, last_key);
    case RecipeKind::kDominantN:
      return draw.range(0, last_key);
    case RecipeKind::kAscendingN:
    case RecipeKind::kDescendingN:
      return draw.range(1, 8);
    case RecipeKind::kLargeN:
      return draw.range(0, 4);
    case RecipeKind::kOffsetN:
      return draw.range(0, 5);
    case RecipeKind::kCancellingN:
      return draw.range(0, 10);
    default:
      return 0;
  }
}

Recipe draw_recipe(Draw& draw, RecipeKind kind, const Shape& shape) {
  return {kind, draw_parameter(draw, kind, shape)};
}

}  // namespace

void draw_data(Draw& draw, Case& value) {
  const auto presets = data_presets();
  draw_data_of(draw,
               presets[static_cast<size_t>(
                   draw.range(0, static_cast<int64_t>(presets.size()) - 1))],
               value);
}

void draw_data_of(Draw& draw, const DataPreset& preset, Case& value) {
  value.q = draw_recipe(draw, preset.q, value.shape);
  value.k = draw_recipe(draw, preset.k, value.shape);
  value.v = draw_recipe(draw, preset.v, value.shape);
  value.seed = draw.bits() >> 44;  // short enough to read in a spelling
}

void draw_dtype(Draw& draw, const Scope& scope, Case& value) {
  // Mixtures are judged in calls and in caches; they are listed last.
  const bool mixes = !value.is_layer() && !value.backward;
  auto count = static_cast<int64_t>(scope.dtypes.size());
  while (!mixes && count > 1 &&
         !scope.dtypes[static_cast<size_t>(count - 1)].is_one())
    --count;
  const bool first = count == 1 || draw.chance(50);
  store_as(
      scope.dtypes[static_cast<size_t>(first ? 0 : draw.range(1, count - 1))],
      value);
}

void draw_scale(Draw& draw, Case& value) {
  if (draw.chance(20)) {
    constexpr std::array<float, 7> kScales = {1.0f, 0.125f, 0.3f,   0.0625f,
                                              0.7f, -0.3f,  -0.125f};
    value.scale = draw.of(kScales);
  }
}

Case draw_attention(Draw& draw, const Law& law, const Scope& scope) {
  return constrained(law,
                     draw_unconstrained(draw, law, scope, /*backward=*/false));
}

Case draw_unconstrained(Draw& draw, const Law& law, const Scope& scope,
                        bool backward) {
  Case value;
  value.backward = backward;
  draw_dtype(draw, scope, value);
  value.shape = draw_shape(draw, law, scope, backward);
  const int64_t causal = draw.range(0, 99);
  if (law.domain.causal)
    value.causal = causal < 50 ? Causal::kTopLeft : Causal::kBottomRight;
  else
    value.causal = causal < 40   ? Causal::kNone
                   : causal < 70 ? Causal::kTopLeft
                                 : Causal::kBottomRight;
  draw_scale(draw, value);
  draw_options(draw, law, scope, value);
  keep_to_declared(scope, value);
  apply_pins(scope, value);
  draw_data(draw, value);
  draw_edges(law, value);
  return value;
}

Case draw_layer(Draw& draw, const Law& law, const Scope& scope) {
  return constrained(law,
                     draw_unconstrained_layer(draw, scope, /*backward=*/false));
}

namespace {

// Most layers have d = dv = D/H; a head width of its own is legal.
void draw_model_width(Draw& draw, Shape& s) {
  s.D = s.H * s.d;
  s.dv = s.d;
  if (draw.chance(30)) {
    s.D = draw.range(1, 24);
    s.dv = draw.chance(50) ? s.d : draw.range(1, 8);
  }
}

void draw_layer_extents(Draw& draw, const Scope& scope, Shape& s) {
  const SizeClass size = draw_size(draw, scope.largest);
  draw_heads(draw, SizeClass::kSmall, s);
  s.Tq = s.Tk =
      draw_extent(draw, size == SizeClass::kLong ? SizeClass::kSmall : size);
  s.d = draw.range(1, 8);
  draw_model_width(draw, s);
}

// How a layer is given its matrices and its causal mask.
void draw_layer_storage(Draw& draw, Case& value) {
  if (draw.chance(40))
    value.fused = static_cast<FusedOrder>(draw.range(1, kFusedOrderCount - 1));
  // The length of the text, a little more, or much more.
  if (value.causal == Causal::kNone || !draw.chance(40)) return;
  constexpr std::array<int64_t, 5> kLonger = {0, 0, 1, 7, 32};
  value.context = value.shape.Tq + draw.of(kLonger);
}

// A layer at a path: its T, or another extent. Draws nothing for a kernel
// without paths.
bool draw_layer_near(Draw& draw, const Scope& scope, bool backward, Shape& s) {
  // The projections cost as much again for a row and a key.
  constexpr int64_t kMostForward = int64_t{1} << 20, kGradients = 8,
                    kLongFrom = 80, kDearest = 64;
  const int64_t most_work = kMostForward / (backward ? kGradients : 1);
  const auto near = draw_near_path_of(draw, scope, scope.largest, most_work);
  if (!near) return false;
  const bool in_tokens =
      near->axis == QKVET_AXIS_TQ || near->axis == QKVET_AXIS_TK;
  Shape drawn = s;
  draw_heads(draw, SizeClass::kSmall, drawn);
  drawn.d = draw.range(1, 8);
  drawn.Tq = drawn.Tk =
      in_tokens ? near->extent : draw_extent(draw, SizeClass::kSmall);
  if (in_tokens && near->extent > kLongFrom) {
    drawn.B = 1;
    drawn.H = drawn.Hkv = draw.range(1, 2);
    drawn.d = draw.range(1, 2);
  }
  draw_model_width(draw, drawn);
  if (!in_tokens) {
    const bool model_follows = drawn.D == drawn.H * drawn.d;
    put_extent(draw, scope, near->axis, near->extent, drawn);
    if (model_follows) drawn.D = drawn.H * drawn.d;
  }
  const int64_t cost = work_of(drawn) + drawn.B * drawn.Tq * drawn.D * drawn.H *
                                            (2 * drawn.d + 2 * drawn.dv);
  if (cost > kDearest * most_work ||
      !is_drawn_at_its_cost(draw, cost, near->most_work))
    return false;
  s = drawn;
  return true;
}

}  // namespace

// Drawn from a separate stream: a case without them keeps its bytes.
void draw_any_strides(const Scope& scope, Case& value) {
  constexpr uint32_t kStream = 0x57D5;
  constexpr std::array<Layout, 4> kLayouts = {Layout::kGaps, Layout::kGaps,
                                              Layout::kApart, Layout::kTurned};
  uint32_t next = 0;
  Draw draw([&] { return philox_u64(value.seed, kStream, next++, 0); });
  if ((scope.layouts & QKVET_LAYOUT_ANY_STRIDES) != 0 && draw.chance(30))
    value.layout = draw.of(kLayouts);
}

Case draw_unconstrained_layer(Draw& draw, const Scope& scope, bool backward) {
  Case value;
  value.backward = backward;
  value.shape.D = 1;  // a layer, whatever its width
  draw_dtype(draw, scope, value);
  if (!draw_layer_near(draw, scope, backward, value.shape))
    draw_layer_extents(draw, scope, value.shape);
  const Shape& s = value.shape;
  value.unbatched = draw.chance(25);
  if (draw.chance(50)) value.causal = Causal::kBottomRight;
  if (s.d % 2 == 0 && draw.chance(50)) value.rope = draw_rotation(draw);
  if (draw.chance(60)) value.biases = static_cast<uint8_t>(draw.range(1, 15));
  if (!backward) draw_layer_storage(draw, value);
  draw_scale(draw, value);
  constexpr std::array<Recipe, 6> kInputs = {{{RecipeKind::kNormal, 0},
                                              {RecipeKind::kNormal, 0},
                                              {RecipeKind::kLattice, 0},
                                              {RecipeKind::kSmall, 0},
                                              {RecipeKind::kOnehotN, 0},
                                              {RecipeKind::kCancellingN, 4}}};
  constexpr std::array<Recipe, 5> kMatrices = {{{RecipeKind::kScaledN, 1},
                                                {RecipeKind::kScaledN, 2},
                                                {RecipeKind::kNormal, 0},
                                                {RecipeKind::kLattice, 0},
                                                {RecipeKind::kOnehotN, 0}}};
  value.x = draw.of(kInputs);
  value.w = draw.of(kMatrices);
  if (draw.chance(50)) value.bias = {RecipeKind::kLattice, 0};
  value.seed = draw.bits() >> 44;
  if (value.rope.style != RopeStyle::kNone && s.d > 2 && draw.chance(30))
    draw_rope_part(draw, value);
  const bool model_follows = s.D == s.H * s.d;
  keep_to_declared(scope, value);
  if (model_follows) value.shape.D = s.H * s.d;
  apply_pins(scope, value);
  draw_any_strides(scope, value);
  return value;
}

}  // namespace qkvet::properties
