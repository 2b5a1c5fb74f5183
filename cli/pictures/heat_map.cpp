// SPDX-License-Identifier: Apache-2.0
#include "cli/pictures/heat_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace qkvet::cli {
namespace {

// A power of two, as tiles of kernels are: no cell is of two tiles.
int64_t step_for(int64_t extent, int64_t most) {
  int64_t step = 1;
  while (step * most < extent) step *= 2;
  return step;
}

std::string some(int64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// The cell that begins at query and key (i, j).
double cell_value(const HeatMap& map, int64_t i, int64_t j, int64_t row_step,
                  int64_t column_step) {
  const int64_t i_end = std::min(map.rows, i + row_step);
  const int64_t j_end = std::min(map.columns, j + column_step);
  double sum = 0, furthest = 0;
  for (int64_t r = i; r < i_end; ++r)
    for (int64_t c = j; c < j_end; ++c) {
      const double value = map.at(r, c);
      sum += value;
      if (std::isnan(value) || std::fabs(value) > std::fabs(furthest))
        furthest = value;
      if (std::isnan(furthest)) return furthest;
    }
  return map.difference ? furthest : sum / static_cast<double>(i_end - i);
}

bool some_visible(const HeatMap& map, int64_t i, int64_t j, int64_t row_step,
                  int64_t column_step) {
  for (int64_t r = i; r < std::min(map.rows, i + row_step); ++r)
    for (int64_t c = j; c < std::min(map.columns, j + column_step); ++c)
      if (map.sees(r, c)) return true;
  return false;
}

}  // namespace

HeatMap weights_map(std::string title, int64_t rows, int64_t columns,
                    std::span<const double> weights,
                    std::span<const uint8_t> sees) {
  HeatMap map;
  map.title = std::move(title);
  map.rows = rows;
  map.columns = columns;
  map.values.assign(weights.begin(), weights.end());
  map.visible.assign(sees.begin(), sees.end());
  return map;
}

HeatMap difference_map(std::string title, const HeatMap& expected,
                       const HeatMap& actual) {
  HeatMap map = actual;
  map.title = std::move(title);
  map.difference = true;
  for (size_t n = 0; n < map.values.size(); ++n)
    map.values[n] -= expected.values[n];
  return map;
}

HeatMap reduced(const HeatMap& map, int64_t most) {
  const int64_t row_step = step_for(map.rows, most);
  const int64_t column_step = step_for(map.columns, most);
  if (row_step == 1 && column_step == 1) return map;
  HeatMap out;
  out.title = map.title;
  out.difference = map.difference;
  out.row_step = row_step;
  out.column_step = column_step;
  for (int64_t i = 0; i < map.rows; i += row_step) {
    ++out.rows;
    for (int64_t j = 0; j < map.columns; j += column_step) {
      out.values.push_back(cell_value(map, i, j, row_step, column_step));
      out.visible.push_back(some_visible(map, i, j, row_step, column_step) ? 1
                                                                           : 0);
    }
  }
  out.columns = (map.columns + column_step - 1) / column_step;
  return out;
}

std::string reduction_text(const HeatMap& map) {
  if (map.row_step == 1 && map.column_step == 1) return "";
  return fmt::format(
      "a cell is {} x {}: the sum over its keys, the mean over its queries; of "
      "differences the largest",
      map.row_step == 1 ? "1 query" : fmt::format("{} queries", map.row_step),
      some(map.column_step, "key"));
}

int heat_level(double value) {
  if (std::isnan(value)) return kHeatLevels - 1;
  const double root = std::sqrt(std::min(std::fabs(value), 1.0));
  return std::min(kHeatLevels - 1, static_cast<int>(root * kHeatLevels));
}

}  // namespace qkvet::cli
