// SPDX-License-Identifier: Apache-2.0
#include "properties/generate.h"

#include <algorithm>
#include <array>

#include "core/philox.h"

namespace qkvet {
namespace {

// Draws from RapidCheck's source. Choices are made directly and not through
// rc::gen::inRange, whose ranges grow with its size parameter: here every
// round aims at the whole range.
class Draw {
 public:
  explicit Draw(rc::Random random) : random_(random) {}

  uint64_t bits() { return random_.next(); }
  int64_t range(int64_t low, int64_t high) {
    return low +
           static_cast<int64_t>(bits() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return range(0, 99) < percent; }
  template <class T, size_t n>
  T of(const std::array<T, n>& choices) {
    return choices[static_cast<size_t>(range(0, static_cast<int64_t>(n) - 1))];
  }

 private:
  rc::Random random_;
};

SizeClass draw_size(Draw& draw, SizeClass largest) {
  const int64_t percent = draw.range(0, 99);
  const SizeClass drawn = percent < 92   ? SizeClass::kSmall
                          : percent < 99 ? SizeClass::kMedium
                                         : SizeClass::kLarge;
  return std::min(drawn, largest);
}

// Widths of vector registers and tiles, and their neighbours.
constexpr std::array<int64_t, 14> kSmallEdges = {1, 2,  3,  4,  5,  7,  8,
                                                 9, 15, 16, 17, 19, 23, 24};
constexpr std::array<int64_t, 11> kMediumEdges = {31, 32, 33, 40, 47, 48,
                                                  63, 64, 65, 79, 80};
constexpr std::array<int64_t, 10> kLargeEdges = {96,  127, 128, 129, 191,
                                                 193, 255, 256, 257, 300};

int64_t draw_extent(Draw& draw, SizeClass size) {
  if (size == SizeClass::kLarge && draw.chance(50)) return draw.of(kLargeEdges);
  if (size != SizeClass::kSmall && draw.chance(60))
    return draw.of(kMediumEdges);
  return draw.chance(50) ? draw.of(kSmallEdges) : draw.range(1, 24);
}

void draw_heads(Draw& draw, SizeClass size, Shape& shape) {
  // H/Hkv beyond powers of two: 3/3, 6/2, 5/1, 7/1, 6/3.
  constexpr std::array<std::pair<int64_t, int64_t>, 14> kHeads = {{{1, 1},
                                                                   {1, 1},
                                                                   {1, 1},
                                                                   {2, 1},
                                                                   {2, 2},
                                                                   {3, 3},
                                                                   {4, 2},
                                                                   {4, 1},
                                                                   {6, 2},
                                                                   {5, 1},
                                                                   {6, 3},
                                                                   {7, 1},
                                                                   {8, 2},
                                                                   {8, 8}}};
  const auto [H, Hkv] = draw.of(kHeads);
  shape.H = H;
  shape.Hkv = Hkv;
  shape.B = draw.chance(70) ? 1 : draw.range(2, 3);
  if (size == SizeClass::kLarge) {
    shape.B = 1;
    shape.H = shape.Hkv = draw.chance(50) ? 1 : 2;
    if (draw.chance(30)) shape.Hkv = 1;
  }
}

Shape draw_shape(Draw& draw, SizeClass largest) {
  const SizeClass size = draw_size(draw, largest);
  Shape shape;
  draw_heads(draw, size, shape);
  shape.Tk = draw_extent(draw, size);
  shape.d = draw_extent(draw, size);
  shape.dv = draw.chance(70) ? shape.d : draw_extent(draw, size);
  const int64_t relation = draw.range(0, 99);
  if (relation < 50)
    shape.Tq = shape.Tk;
  else if (relation < 60)
    shape.Tq = 1;
  else if (relation < 80)
    shape.Tq = draw.range(1, shape.Tk);
  else
    shape.Tq = draw_extent(draw, size);
  if (size == SizeClass::kLarge && draw.chance(70)) shape.Tq = draw.range(1, 4);
  return shape;
}

int64_t draw_parameter(Draw& draw, RecipeKind kind, const Shape& shape) {
  switch (kind) {
    case RecipeKind::kOnehotN:
      return draw.chance(50) ? 0 : draw.range(0, shape.Tk - 1);
    case RecipeKind::kDominantN:
      return draw.range(0, shape.Tk - 1);
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

void draw_data(Draw& draw, Case& value) {
  const auto presets = data_presets();
  const auto& preset = presets[static_cast<size_t>(
      draw.range(0, static_cast<int64_t>(presets.size()) - 1))];
  value.q = draw_recipe(draw, preset.q, value.shape);
  value.k = draw_recipe(draw, preset.k, value.shape);
  value.v = draw_recipe(draw, preset.v, value.shape);
  value.seed = draw.bits() >> 44;  // short enough to read in a spelling
}

void draw_dtype(Draw& draw, const Scope& scope, Case& value) {
  const auto others = static_cast<int64_t>(scope.dtypes.size()) - 1;
  const bool first = others == 0 || draw.chance(50);
  value.q_dtype = value.kv_dtype = value.o_dtype =
      scope.dtypes[static_cast<size_t>(first ? 0 : draw.range(1, others))];
}

Case draw_case(Draw draw, const Law& law, const Scope& scope) {
  Case value;
  draw_dtype(draw, scope, value);
  value.shape = draw_shape(draw, scope.largest);
  const int64_t causal = draw.range(0, 99);
  if (law.aim.causal)
    value.causal = causal < 50 ? Causal::kTopLeft : Causal::kBottomRight;
  else
    value.causal = causal < 40   ? Causal::kNone
                   : causal < 70 ? Causal::kTopLeft
                                 : Causal::kBottomRight;
  if (draw.chance(20)) {
    constexpr std::array<float, 5> kScales = {1.0f, 0.125f, 0.3f, 0.0625f,
                                              0.7f};
    value.scale = draw.of(kScales);
  }
  draw_data(draw, value);
  return law.fit(value);
}

}  // namespace

rc::Gen<Case> case_generator(const Law& law, const Scope& scope) {
  const rc::Gen<Case> base([&law, scope](const rc::Random& random, int) {
    return rc::shrinkable::just(draw_case(Draw(random), law, scope));
  });
  return rc::gen::shrink(base, [&law](Case&& value) {
    return rc::seq::fromContainer(simpler_cases(law, value));
  });
}

Case planned_case(const Law& law, uint64_t seed, int64_t number,
                  const Scope& scope) {
  uint32_t id = 0;  // the law's name, so that adding a law moves no case
  for (const char* c = law.id; *c != 0; ++c)
    id = id * 31 + static_cast<uint32_t>(*c);
  const rc::Random random(philox_u64(seed, id, static_cast<uint32_t>(number),
                                     static_cast<uint32_t>(number >> 32)));
  constexpr int kSize = 100;  // not used by the generator above
  return case_generator(law, scope)(random, kSize).value();
}

bool is_stress(const Case& value) {
  const auto wild = [](const Recipe& recipe) {
    return (recipe.kind == RecipeKind::kLargeN && recipe.parameter > 2) ||
           (recipe.kind == RecipeKind::kOffsetN && recipe.parameter > 4) ||
           recipe.kind == RecipeKind::kDominantN ||
           recipe.kind == RecipeKind::kHeavy;
  };
  return wild(value.q) || wild(value.k) || wild(value.v);
}

int64_t sum_of_extents(const Shape& s) {
  return s.B + s.H + s.Hkv + s.Tq + s.Tk + s.d + s.dv;
}

}  // namespace qkvet
