// SPDX-License-Identifier: Apache-2.0
#include "tools/pictures/heat_drawing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace qkvet::tools {
namespace {

constexpr int kMargin = 20;
constexpr int kGap = 28;  // between maps
constexpr int kTitleRoom = 2 * kLetterHeight;
constexpr int kNumberRoom = kLetterHeight + 6;  // numbers above the cells
constexpr int kMostCell = 36, kLeastCell = 12;
constexpr int kMapAim = 336;  // pixels that the cells of a map aim at
constexpr int kBarHeight = 14, kBarWidth = 340;

constexpr Rgb kHidden{228, 228, 228};
constexpr Rgb kNan{255, 0, 255};
constexpr Rgb kNone{250, 250, 250};
constexpr std::array<Rgb, 5> kViridis = {{{68, 1, 84},
                                          {59, 82, 139},
                                          {33, 145, 140},
                                          {94, 201, 98},
                                          {253, 231, 37}}};
constexpr Rgb kTooMuch{178, 24, 43};
constexpr Rgb kTooLittle{33, 102, 172};

Rgb between(const Rgb& a, const Rgb& b, double share) {
  const auto mix = [&](uint8_t from, uint8_t to) {
    return static_cast<uint8_t>(std::lround(from + share * (to - from)));
  };
  return {mix(a.r, b.r), mix(a.g, b.g), mix(a.b, b.b)};
}

Rgb weight_colour(double root) {
  const double at = std::clamp(root, 0.0, 1.0) * (kViridis.size() - 1);
  const auto n = std::min(static_cast<size_t>(at), kViridis.size() - 2);
  return between(kViridis[n], kViridis[n + 1], at - static_cast<double>(n));
}

// Where the parts of a drawing stand.
struct Places {
  int across = 1, cell = kMostCell;
  int label = 0;                      // room for the numbers of queries
  int map_width = 0, map_height = 0;  // with title and numbers

  Places(const std::vector<HeatMap>& maps, int wanted)
      : across(
            std::max(1, std::min<int>(wanted, static_cast<int>(maps.size())))) {
    int64_t rows = 1, columns = 1, last = 0;
    size_t title = 0;
    for (const HeatMap& map : maps) {
      rows = std::max(rows, map.rows);
      columns = std::max(columns, map.columns);
      last = std::max(last, (map.rows - 1) * map.row_step);
      title = std::max(title, map.title.size());
    }
    cell = static_cast<int>(std::clamp<int64_t>(
        kMapAim / std::max(rows, columns), kLeastCell, kMostCell));
    label = kLetterWidth * static_cast<int>(std::to_string(last).size()) + 6;
    map_width = std::max(label + cell * static_cast<int>(columns),
                         kLetterWidth * static_cast<int>(title));
    map_height = kTitleRoom + kNumberRoom + cell * static_cast<int>(rows);
  }
  int left(size_t n) const {
    return kMargin + static_cast<int>(n) % across * (map_width + kGap);
  }
  int top(size_t n) const {
    return kMargin + kTitleRoom +
           static_cast<int>(n) / across * (map_height + kGap);
  }
  CellPlace place(size_t n, int64_t i, int64_t j) const {
    return {left(n) + label + cell * static_cast<int>(j),
            top(n) + kTitleRoom + kNumberRoom + cell * static_cast<int>(i),
            cell};
  }
};

// Numbers at every cell that has room for one, or every fifth.
int64_t numbers_apart(int cell, int64_t last) {
  const int needed =
      kLetterWidth * static_cast<int>(std::to_string(last).size() + 1);
  return needed <= cell ? 1 : 5;
}

void add_map(const HeatMap& map, const Places& places, size_t n,
             Drawing& drawing) {
  drawing.labels.push_back({places.left(n), places.top(n), map.title});
  const int64_t across =
      numbers_apart(places.cell, (map.columns - 1) * map.column_step);
  for (int64_t j = 0; j < map.columns; j += across) {
    const CellPlace at = places.place(n, 0, j);
    drawing.labels.push_back({at.x + at.size / 2, at.y - kNumberRoom,
                              std::to_string(j * map.column_step),
                              Anchor::kMiddle});
  }
  const int64_t down = places.cell > kLetterHeight ? 1 : 2;
  for (int64_t i = 0; i < map.rows; ++i) {
    const CellPlace row = places.place(n, i, 0);
    if (i % down == 0)
      drawing.labels.push_back(
          {row.x - 6, row.y + (row.size - kLetterHeight) / 2,
           std::to_string(i * map.row_step), Anchor::kRight});
    for (int64_t j = 0; j < map.columns; ++j) {
      const CellPlace at = places.place(n, i, j);
      // One pixel apart, so that equal neighbours can be counted.
      drawing.rects.push_back(
          {at.x, at.y, at.size - 1, at.size - 1, heat_colour(map, i, j),
           fmt::format("i={} j={}: {:.6g}{}", i * map.row_step,
                       j * map.column_step, map.at(i, j),
                       map.sees(i, j) ? "" : ", hidden")});
    }
  }
}

template <class Predicate>
bool some_map(const std::vector<HeatMap>& maps, Predicate predicate) {
  return std::any_of(maps.begin(), maps.end(), predicate);
}

bool has_nan(const HeatMap& map) {
  return std::any_of(map.values.begin(), map.values.end(),
                     [](double value) { return std::isnan(value); });
}

// The colours of weights from 0 to 1, and what else there is.
void add_legend(const std::vector<HeatMap>& maps, int y, Drawing& drawing) {
  constexpr int kSteps = 100;
  const auto left = [](int n) { return kMargin + n * kBarWidth / kSteps; };
  for (int n = 0; n < kSteps; ++n)
    drawing.rects.push_back({left(n), y, left(n + 1) - left(n), kBarHeight,
                             weight_colour((n + 0.5) / kSteps), ""});
  for (int n = 0; n <= 4; ++n) {
    const double root = n / 4.0;
    drawing.labels.push_back(
        {kMargin + n * kBarWidth / 4, y + kBarHeight + 5,
         fmt::format("{:.2g}", std::floor(100 * root * root) / 100),
         n == 0 ? Anchor::kLeft : Anchor::kMiddle});
  }
  struct Key {
    Rgb colour;
    const char* text;
  };
  std::vector<Key> keys = {{kHidden, "hidden"}};
  if (some_map(maps, [](const HeatMap& map) { return map.difference; })) {
    keys.push_back({kTooMuch, "too much"});
    keys.push_back({kTooLittle, "too little"});
  }
  if (some_map(maps, has_nan)) keys.push_back({kNan, "nan"});
  int x = kMargin, at = y + kBarHeight + 5 + kLetterHeight + 10;
  for (const Key& key : keys) {
    drawing.rects.push_back(
        {x, at, kLetterHeight, kLetterHeight, key.colour, ""});
    drawing.labels.push_back({x + kLetterHeight + 6, at, key.text});
    x += kLetterHeight + 6 +
         kLetterWidth * (static_cast<int>(std::string(key.text).size()) + 2);
  }
  const HeatMap& first = maps.front();
  if (first.row_step > 1 || first.column_step > 1)
    drawing.labels.push_back(
        {x, at,
         fmt::format("a cell: {} x {}", first.row_step, first.column_step)});
}

}  // namespace

Rgb heat_colour(const HeatMap& map, int64_t i, int64_t j) {
  const double value = map.at(i, j);
  if (std::isnan(value)) return kNan;
  const double root = std::sqrt(std::min(std::fabs(value), 1.0));
  if (map.difference) {
    if (std::fabs(value) < kShownDifference)
      return map.sees(i, j) ? kNone : kHidden;
    return between(kNone, value > 0 ? kTooMuch : kTooLittle, root);
  }
  return !map.sees(i, j) && value == 0 ? kHidden : weight_colour(root);
}

CellPlace cell_place(const std::vector<HeatMap>& maps, int across, size_t n,
                     int64_t i, int64_t j) {
  return Places(maps, across).place(n, i, j);
}

Drawing draw_heat_maps(const std::string& title,
                       const std::vector<HeatMap>& maps, int across) {
  const Places places(maps, across);
  Drawing drawing;
  drawing.title = title;
  for (size_t n = 0; n < maps.size(); ++n) add_map(maps[n], places, n, drawing);
  const int down =
      (static_cast<int>(maps.size()) + places.across - 1) / places.across;
  const int bottom = kMargin + kTitleRoom + down * (places.map_height + kGap);
  add_legend(maps, bottom, drawing);
  constexpr int kLegendHeight = kBarHeight + 2 * kLetterHeight + 15;
  constexpr int kLegendWidth = kBarWidth + 300;
  drawing.height = bottom + kLegendHeight + kMargin;
  drawing.width =
      2 * kMargin + std::max(kLegendWidth, places.across * places.map_width +
                                               (places.across - 1) * kGap);
  const auto room =
      static_cast<size_t>((drawing.width - 2 * kMargin) / kLetterWidth);
  drawing.labels.push_back(
      {kMargin, kMargin,
       title.size() <= room ? title : title.substr(0, room - 3) + "..."});
  return drawing;
}

}  // namespace qkvet::tools
