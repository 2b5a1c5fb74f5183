// SPDX-License-Identifier: Apache-2.0
// Extents at which a kernel declares another path, or for which there is a
// hint: just at, below and beyond them and their first multiples, with few rows
// if there are many keys.
#include <algorithm>

#include "properties/cases/draw.h"

namespace qkvet::properties {
namespace {

int64_t& extent_of(Shape& s, int32_t axis) {
  switch (axis) {
    case QKVET_AXIS_TQ:
      return s.Tq;
    case QKVET_AXIS_D:
      return s.d;
    case QKVET_AXIS_DV:
      return s.dv;
    case QKVET_AXIS_B:
      return s.B;
    case QKVET_AXIS_H:
      return s.H;
    default:
      return s.Tk;
  }
}

// The widest path, if only cost limits it and no size is requested.
constexpr int64_t kWidest = 3 * QKVET_MOST_PATH;

// Percent of the cases that go to declared paths, if there are some, and to
// hints. Most hints are no path at all, so their cases are also cheaper: a
// source with many numbers costs little more than one without.
constexpr int kPercentPaths = 15, kPercentHints = 6;
constexpr int64_t kShareOfHint = 16;

qkvet_path draw_path(Draw& draw, const std::vector<qkvet_path>& paths) {
  return paths[static_cast<size_t>(
      draw.range(0, static_cast<int64_t>(paths.size()) - 1))];
}

// Half of all are the path itself or a neighbour of it. Tiles after a border of
// another kind end with a whole tile or with a partial one.
int64_t draw_near(Draw& draw, const std::vector<qkvet_path>& paths,
                  const qkvet_path& path) {
  constexpr std::array<int64_t, 8> kTimes = {1, 1, 1, 1, 1, 2, 2, 3};
  constexpr std::array<int64_t, 6> kBeside = {-1, 0, 0, 1, 1, 1};
  int64_t extent = draw.of(kTimes) * path.at + draw.of(kBeside);
  if (draw.chance(20)) {
    const qkvet_path other = draw_path(draw, paths);
    if (other.axis == path.axis) extent += other.at;
  } else if (draw.chance(15)) {
    extent += draw.range(1, 24);
  }
  return extent;
}

// Fewer heads and members, narrower, and then fewer rows and keys, except for
// extents that were drawn at a path.
void make_cheap(int64_t most_work, const std::vector<int32_t>& drawn,
                Shape& s) {
  const auto is_free = [&drawn](int32_t axis) {
    return std::find(drawn.begin(), drawn.end(), axis) == drawn.end();
  };
  const auto lower = [&](int32_t axis, int64_t to) {
    int64_t& extent = extent_of(s, axis);
    while (is_free(axis) && extent > to && work_of(s) > most_work)
      extent = std::max(extent / 2, to);
  };
  if (is_free(QKVET_AXIS_H) && work_of(s) > most_work) {
    s.H = s.group();
    s.Hkv = 1;
  }
  lower(QKVET_AXIS_B, 1);
  lower(QKVET_AXIS_TQ, 2);
  lower(QKVET_AXIS_D, 4);
  lower(QKVET_AXIS_DV, 4);
  lower(QKVET_AXIS_TK, 2);
  if (is_free(QKVET_AXIS_H) && work_of(s) > most_work) s.H = 1;
  for (const int32_t axis :
       {QKVET_AXIS_TQ, QKVET_AXIS_D, QKVET_AXIS_DV, QKVET_AXIS_TK})
    lower(axis, 1);
}

}  // namespace

void put_extent(Draw& draw, const Scope& scope, int32_t axis, int64_t extent,
                Shape& s) {
  constexpr int64_t kFew = 300;
  constexpr std::array<int64_t, 8> kRows = {1, 1, 1, 2, 3, 4, 5, 17};
  const bool same_width = s.dv == s.d;
  extent_of(s, axis) = extent;
  if (axis == QKVET_AXIS_H) s.Hkv = extent;
  if (axis == QKVET_AXIS_H && extent % 2 == 0 && draw.chance(50))
    s.Hkv = draw.chance(50) ? 1 : extent / 2;
  if (axis == QKVET_AXIS_D && same_width) s.dv = extent;
  if (axis == QKVET_AXIS_TK)
    s.Tq = extent <= kFew && draw.chance(40) ? extent : draw.of(kRows);
  if (axis == QKVET_AXIS_TQ && extent <= kFew && draw.chance(50)) s.Tk = extent;
  const bool square = (scope.options & QKVET_OPTION_CROSS_LENGTHS) == 0;
  if (square && (axis == QKVET_AXIS_TQ || axis == QKVET_AXIS_TK))
    s.Tq = s.Tk = extent;
}

bool is_drawn_at_its_cost(Draw& draw, int64_t cost, int64_t most_work) {
  return cost <= most_work || draw.range(0, cost - 1) < most_work;
}

std::optional<Shape> draw_path_shape(Draw& draw, const Scope& scope,
                                     const std::vector<qkvet_path>& paths,
                                     SizeClass largest, int64_t most_work) {
  const qkvet_path path = draw_path(draw, paths);
  const int64_t extent = draw_near(draw, paths, path);
  const int64_t widest = std::min(largest_extent(largest), kWidest);
  if (extent > widest) return std::nullopt;
  Shape s;
  draw_heads(draw, SizeClass::kSmall, s);
  s.Tq = draw_extent(draw, SizeClass::kSmall);
  s.Tk = draw_extent(draw, SizeClass::kSmall);
  s.d = draw_extent(draw, SizeClass::kSmall);
  s.dv = draw.chance(70) ? s.d : draw_extent(draw, SizeClass::kSmall);
  std::vector<int32_t> drawn = {path.axis};
  put_extent(draw, scope, path.axis, extent, s);
  if (const qkvet_path second = draw_path(draw, paths);
      second.axis != path.axis && draw.chance(30)) {
    const int64_t other = draw_near(draw, paths, second);
    if (other <= widest) {
      put_extent(draw, scope, second.axis, other, s);
      extent_of(s, path.axis) = extent;
      drawn.push_back(second.axis);
    }
  }
  if ((scope.options & QKVET_OPTION_CROSS_LENGTHS) == 0)
    drawn.insert(drawn.end(), {QKVET_AXIS_TQ, QKVET_AXIS_TK});
  make_cheap(most_work, drawn, s);
  if (!is_drawn_at_its_cost(draw, work_of(s), most_work)) return std::nullopt;
  return s;
}

std::optional<Shape> draw_near_path(Draw& draw, const Scope& scope,
                                    SizeClass largest, int64_t most_work) {
  if (!scope.paths.empty() && draw.chance(kPercentPaths))
    if (auto shape =
            draw_path_shape(draw, scope, scope.paths, largest, most_work))
      return shape;
  if (scope.hints.empty() || !draw.chance(kPercentHints)) return std::nullopt;
  return draw_path_shape(draw, scope, scope.hints, largest,
                         most_work / kShareOfHint);
}

std::optional<NearPath> draw_near_path_of(Draw& draw, const Scope& scope,
                                          SizeClass largest,
                                          int64_t most_work) {
  const auto near = [&](const std::vector<qkvet_path>& paths,
                        int64_t most) -> std::optional<NearPath> {
    const qkvet_path path = draw_path(draw, paths);
    const NearPath one = {path.axis, draw_near(draw, paths, path), most};
    if (one.extent > std::min(largest_extent(largest), kWidest))
      return std::nullopt;
    return one;
  };
  if (!scope.paths.empty() && draw.chance(kPercentPaths))
    return near(scope.paths, most_work);
  if (scope.hints.empty() || !draw.chance(kPercentHints)) return std::nullopt;
  return near(scope.hints, most_work / kShareOfHint);
}

}  // namespace qkvet::properties
