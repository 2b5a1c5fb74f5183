// SPDX-License-Identifier: Apache-2.0
// Rare choices that were added after the others, from a separate stream of
// random numbers: a case with none of them keeps its bytes.
#include <algorithm>

#include "core/base/philox.h"
#include "properties/cases/draw.h"
#include "properties/cases/generate.h"

namespace qkvet::properties {
namespace {

// A number that takes no memory, at an edge of a narrower type: its largest
// value, the first that changes its sign, and slightly larger ones, which are
// small after truncation.
int64_t draw_edge(Draw& draw) {
  constexpr std::array<int, 8> kBits = {15, 16, 31, 31, 32, 32, 40, 62};
  const int bits = draw.of(kBits);
  const int64_t edge = int64_t{1} << bits;
  return std::min(edge + draw.range(-1, 3), kMaxCount);
}

void draw_edges_of_window(Draw& draw, Window& window) {
  const bool left = draw.chance(50);
  if (left) window.left = draw_edge(draw);
  if (!left || draw.chance(30)) window.right = draw_edge(draw);
}

// Tables as long as 16 bits count, of heads that are narrow.
void draw_far_positions(Draw& draw, Case& value) {
  constexpr int64_t kWidest = 16;
  constexpr std::array<int64_t, 4> kFirst = {32765, 65530, 65533, 65535};
  if (value.rope.random_positions || value.shape.d > kWidest) return;
  value.rope.first = draw.of(kFirst);
}

// One call more that differs from the case, and the case after it.
void draw_later_calls(Draw& draw, CallSequence& calls) {
  if (std::ssize(calls) + 2 > kMostCallSteps) return;
  const CallStepKind kind =
      draw.chance(50) ? CallStepKind::kStrides : CallStepKind::kNumbers;
  const int64_t at = draw.range(1, std::ssize(calls));
  calls.insert(calls.begin() + at, CallStep{kind});
  calls.push_back(CallStep{});
  calls = joined(calls);
}

// Up to the range of the type, all lse of a row or some of them.
Recipe draw_far_lse(Draw& draw) {
  constexpr std::array<Recipe, 8> kLse = {{{RecipeKind::kMaskingN, 2},
                                           {RecipeKind::kMaskingN, 4},
                                           {RecipeKind::kMaskingN, 9},
                                           {RecipeKind::kMaskingN, 309},
                                           {RecipeKind::kRaisedN, 4},
                                           {RecipeKind::kRaisedN, 9},
                                           {RecipeKind::kRaisedN, 309},
                                           {RecipeKind::kOffsetN, 12}}};
  return draw.of(kLse);
}

}  // namespace

void draw_edges(const Law& law, Case& value) {
  constexpr uint32_t kStream = 0xED6E;
  const uint32_t id = stream_of(law);
  uint32_t next = 0;
  Draw draw([&] { return philox_u64(value.seed, kStream, id, next++); });
  if (value.window && draw.chance(15))
    draw_edges_of_window(draw, *value.window);
  if (value.chunk > 0 && draw.chance(15)) value.chunk = draw_edge(draw);
  if (value.rope.style != RopeStyle::kNone && draw.chance(12))
    draw_far_positions(draw, value);
  if (!value.calls.empty() && draw.chance(50))
    draw_later_calls(draw, value.calls);
  // Both take any strides.
  const bool any_strides =
      value.layout == Layout::kGaps || value.layout == Layout::kApart;
  if (any_strides && draw.chance(30)) value.layout = Layout::kTurned;
  if (value.merge && draw.chance(20)) value.score_bias = draw_far_lse(draw);
}

}  // namespace qkvet::properties
