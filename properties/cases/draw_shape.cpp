// SPDX-License-Identifier: Apache-2.0
// Extents. Most cases are small; a fixed share has one extent that is long.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/base/philox.h"
#include "properties/cases/draw.h"
#include "properties/cases/generate.h"

namespace qkvet::properties {
namespace {

// Widths of vector registers and tiles, and their neighbours.
constexpr std::array<int64_t, 14> kSmallEdges = {1, 2,  3,  4,  5,  7,  8,
                                                 9, 15, 16, 17, 19, 23, 24};
constexpr std::array<int64_t, 11> kMediumEdges = {31, 32, 33, 40, 47, 48,
                                                  63, 64, 65, 79, 80};
constexpr std::array<int64_t, 10> kLargeEdges = {96,  127, 128, 129, 191,
                                                 193, 255, 256, 257, 300};

// Kernels split their keys from 256 to 2,048 on (paged attention of vLLM in
// partitions of 512), and do so one key beyond a multiple.
constexpr std::array<int64_t, 16> kLongEdges = {
    511,  512,  513,  577,  640,  767,  1000, 1023,
    1024, 1025, 1281, 1537, 2047, 2048, 2049, 2304};
// Positions, tiles and pages that are kept in 12, 15, 16 or 17 bits.
constexpr std::array<int64_t, 12> kWidestEdges = {4095,  4096,  4097,  8192,
                                                  8193,  16385, 32767, 32768,
                                                  32769, 65535, 65537, 131073};

// The most work of a case with many keys or rows, in products of two numbers:
// as much as a case of medium size, so that a fiftieth of the cases takes less
// than a fifth of a run's time. An exponential costs about as much as 16
// products. Gradients cost eight times as much.
constexpr int64_t kMostForward = int64_t{1} << 21;
constexpr int64_t kMostBackward = int64_t{1} << 18;
constexpr int64_t kExponential = 16;

// A story's cost is that of its capacity times its commands.
constexpr int64_t kMostTokens = 1025;

// In a hundred cases, where all sizes are drawn: 2 long, 90 small, 7 medium and
// 1 large.
constexpr int64_t kPercentLong = 2;
// The largest of these edges, from the drawn one down, that is no more.
template <size_t n>
int64_t edge_up_to(Draw& draw, const std::array<int64_t, n>& edges,
                   int64_t most) {
  auto at = static_cast<size_t>(draw.range(0, static_cast<int64_t>(n) - 1));
  while (at > 0 && edges[at] > most) --at;
  return edges[at];
}

// Widths as narrow as the cost of many keys requires, and those of real heads.
int64_t draw_long_width(Draw& draw) {
  constexpr std::array<int64_t, 10> kWidths = {1, 2,  3,  4,  8,
                                               8, 16, 24, 64, 128};
  return draw.of(kWidths);
}

// The cost of a case for each pair of a row and a key, with the widths and
// heads that it gets if the kernel takes no others.
int64_t work_of_a_pair(const Scope& scope, Shape s) {
  keep_widths(scope.extents, 0, s);
  keep_heads(scope.extents, /*grouped=*/true, s);
  return s.B * s.H * (s.d + s.dv + kExponential);
}

// Makes the shape narrower, if that is possible.
bool narrow(const std::vector<qkvet_width>& widths, Shape& s) {
  if (widths.empty()) {
    if (std::max(s.d, s.dv) <= 1) return false;
    s.d = std::max<int64_t>(s.d / 2, 1);
    s.dv = std::max<int64_t>(s.dv / 2, 1);
    return true;
  }
  const auto at = std::find_if(widths.begin(), widths.end(),
                               [&s](const qkvet_width& width) {
                                 return width.d == s.d && width.dv == s.dv;
                               });
  if (at == widths.begin()) return false;
  s.d = std::prev(at)->d;
  s.dv = std::prev(at)->dv;
  return true;
}

// Narrower, until this many pairs cost no more.
void keep_narrow(const Scope& scope, int64_t pairs, int64_t most_work,
                 Shape& s) {
  if (!scope.extents.widths.empty()) keep_widths(scope.extents, 0, s);
  while (work_of_a_pair(scope, s) > most_work / pairs &&
         narrow(scope.extents.widths, s)) {
  }
}

// Reduces the cost of this many pairs: narrower, and then one head of one
// member.
void make_room(const Scope& scope, int64_t pairs, int64_t most_work, Shape& s) {
  keep_narrow(scope, pairs, most_work, s);
  if (work_of_a_pair(scope, s) > most_work / pairs) s.B = s.H = s.Hkv = 1;
}

// Few rows and many keys, as in a step of decoding.
void draw_long_keys(Draw& draw, const Scope& scope, int64_t most_work,
                    Shape& s) {
  constexpr std::array<int64_t, 8> kRows = {1, 1, 1, 2, 3, 4, 5, 17};
  s.Tq = draw.of(kRows);
  const int64_t shortest = kLongEdges.front();
  make_room(scope, s.Tq * shortest, most_work, s);
  const int64_t most = most_work / (s.Tq * work_of_a_pair(scope, s));
  s.Tk = draw.chance(85) || most < kWidestEdges.front()
             ? edge_up_to(draw, kLongEdges, most)
             : edge_up_to(draw, kWidestEdges, most);
}

// As many rows as keys, for kernels that only take such calls.
void draw_long_square(Draw& draw, const Scope& scope, int64_t most_work,
                      Shape& s) {
  const int64_t shortest = kLongEdges.front();
  make_room(scope, shortest * shortest, most_work, s);
  const auto most = static_cast<int64_t>(
      std::sqrt(static_cast<double>(most_work) /
                static_cast<double>(work_of_a_pair(scope, s))));
  s.Tq = s.Tk = edge_up_to(draw, kLongEdges, most);
}

// Many rows and few keys, as grids and threads share them.
void draw_long_queries(Draw& draw, const Scope& scope, int64_t most_work,
                       Shape& s) {
  s.Tk = draw_extent(draw, SizeClass::kSmall);
  make_room(scope, s.Tk * kLongEdges.front(), most_work, s);
  // Few cases of the size before have more than four rows.
  s.Tq = draw.chance(40)
             ? draw.of(kLargeEdges)
             : edge_up_to(draw, kLongEdges,
                          most_work / (s.Tk * work_of_a_pair(scope, s)));
}

// Many heads, or many members.
void draw_wide_batch(Draw& draw, const Scope& scope, int64_t most_work,
                     Shape& s) {
  constexpr std::array<int64_t, 8> kMany = {16, 31, 33, 64, 65, 127, 129, 256};
  constexpr std::array<int64_t, 6> kGroups = {1, 1, 2, 4, 8, 16};
  s.Tk = draw.range(1, 9);
  s.Tq = draw.chance(50) ? s.Tk : draw.range(1, 9);
  const int64_t many = draw.of(kMany);
  if (draw.chance(30)) {
    s.B = many + draw.range(0, 1);
  } else {
    const int64_t group = draw.of(kGroups);
    s.Hkv = std::max<int64_t>(many / group, 1);
    s.H = s.Hkv * group;
  }
  keep_narrow(scope, s.Tq * s.Tk, most_work, s);
}

Shape draw_long_shape(Draw& draw, const Scope& scope, int64_t most_work) {
  constexpr std::array<std::pair<int64_t, int64_t>, 6> kHeads = {
      {{1, 1}, {1, 1}, {2, 1}, {2, 2}, {4, 2}, {8, 1}}};
  Shape shape;
  const auto [H, Hkv] = draw.of(kHeads);
  shape.H = H;
  shape.Hkv = Hkv;
  shape.B = draw.chance(80) ? 1 : 2;
  shape.d = draw_long_width(draw);
  shape.dv = draw.chance(70) ? shape.d : draw_long_width(draw);
  const int64_t which = draw.range(0, 99);
  const bool square = (scope.options & QKVET_OPTION_CROSS_LENGTHS) == 0;
  constexpr int64_t kSquare = 4;  // times as expensive as the others, and rarer
  if (square && which < 10)
    draw_long_square(draw, scope, kSquare * most_work, shape);
  else if (!square && which < 70)
    draw_long_keys(draw, scope, most_work, shape);
  else if (!square && which < 85)
    draw_long_queries(draw, scope, most_work, shape);
  else
    draw_wide_batch(draw, scope, most_work, shape);
  return shape;
}

}  // namespace

int64_t work_of(const Shape& s) {
  return s.B * s.H * s.Tq * s.Tk * (s.d + s.dv + kExponential);
}

bool is_too_much_work(const Shape& s) {
  constexpr int64_t kMostWork = int64_t{1} << 28;
  return work_of(s) > kMostWork;
}

SizeClass draw_size(Draw& draw, SizeClass largest) {
  const int64_t percent = draw.range(0, 99);
  const SizeClass drawn = percent < kPercentLong ? SizeClass::kLong
                          : percent < 92         ? SizeClass::kSmall
                          : percent < 99         ? SizeClass::kMedium
                                                 : SizeClass::kLarge;
  if (drawn == SizeClass::kLong && drawn > largest) return SizeClass::kSmall;
  return std::min(drawn, largest);
}

int64_t draw_extent(Draw& draw, SizeClass size) {
  if (size >= SizeClass::kLarge && draw.chance(50)) return draw.of(kLargeEdges);
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

namespace {

Shape draw_any_shape(Draw& draw, const Scope& scope, SizeClass largest,
                     int64_t most_work) {
  if (const auto shape = draw_near_path(draw, scope, largest, most_work))
    return *shape;
  const SizeClass size = draw_size(draw, largest);
  if (size == SizeClass::kLong) return draw_long_shape(draw, scope, most_work);
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

}  // namespace

Shape draw_shape(Draw& draw, const Law& law, const Scope& scope,
                 bool backward) {
  // Dropped weights are read by one call for every dv keys.
  const bool reads_masks = (law.domain.about & QKVET_OPTION_DROPOUT) != 0;
  const SizeClass largest =
      reads_masks ? std::min(scope.largest, SizeClass::kLarge) : scope.largest;
  const int64_t most_work = backward ? kMostBackward : kMostForward;
  if (!scope.few_shapes) return draw_any_shape(draw, scope, largest, most_work);
  // Kernels that compile for each shape, which takes seconds, get few shapes,
  // and many options and data in each. The first draw picks the shape; the
  // others are the same for all seeds and laws, so that a compiled shape is
  // reused.
  constexpr int64_t kShapes = 12;
  const auto which = static_cast<uint32_t>(draw.range(0, kShapes - 1));
  uint32_t next = 0;
  Draw known([which, &next] { return philox_u64(kShapes, which, next++, 0); });
  return draw_any_shape(known, scope, largest, most_work);
}

bool is_long(const Case& value) {
  const Shape& s = value.shape;
  return std::max({s.Tq, s.Tk, value.capacity, value.merge ? s.B : 0}) >
         kLargeEdges.back();
}

int64_t draw_capacity(Draw& draw, SizeClass size) {
  if (size == SizeClass::kLong)
    return edge_up_to(draw, kLongEdges, kMostTokens);
  return draw.chance(50) ? draw.range(2, 12) : draw_extent(draw, size);
}

}  // namespace qkvet::properties
