// SPDX-License-Identifier: Apache-2.0
// The weights of a head as a map of queries (down) and keys (across), in
// characters and as a picture. Shades follow the square root of a weight: small
// weights, which are most of them in long rows, stay apart.
#ifndef QKVET_CLI_PICTURES_HEAT_MAP_H_
#define QKVET_CLI_PICTURES_HEAT_MAP_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace qkvet::cli {

struct HeatMap {
  std::string title;              // "head 0"
  int64_t rows = 0, columns = 0;  // cells
  std::vector<double> values;     // [rows,columns]; weights, or a difference
  std::vector<uint8_t> visible;   // [rows,columns]; 0: hidden
  bool difference = false;        // actual - expected, with its sign
  int64_t row_step = 1, column_step = 1;  // queries and keys of a cell

  double at(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(i * columns + j)];
  }
  bool sees(int64_t i, int64_t j) const {
    return visible[static_cast<size_t>(i * columns + j)] != 0;
  }
};

HeatMap weights_map(std::string title, int64_t rows, int64_t columns,
                    std::span<const double> weights,
                    std::span<const uint8_t> sees);
// actual - expected, cell by cell; the maps have the same extents and are not
// reduced.
HeatMap difference_map(std::string title, const HeatMap& expected,
                       const HeatMap& actual);

// At most `most` cells each way. A reduced cell of weights is the sum over its
// keys, so that rows keep their sum, and the mean over its queries; a cell of a
// difference is the number furthest from 0.
inline constexpr int64_t kMostCells = 32;
HeatMap reduced(const HeatMap& map, int64_t most = kMostCells);
// "" or "a cell is 4 queries x 4 keys: ...".
std::string reduction_text(const HeatMap& map);

// Smaller differences are shown as none.
inline constexpr double kShownDifference = 0.001;
// 0 .. kHeatLevels - 1, from the square root of the magnitude; NaN: the last.
inline constexpr int kHeatLevels = 5;
int heat_level(double value);

// Abilities of a terminal.
enum class Ink : uint8_t { kAscii, kUnicode, kColour };

// Lines of the same width, in columns of a terminal. Up to kNumberedCells each
// way, the cells contain their numbers.
inline constexpr int64_t kNumberedCells = 8;
struct TextBlock {
  std::vector<std::string> lines;
  size_t width = 0;
};
TextBlock heat_text(const HeatMap& map, Ink ink);
// Blocks next to each other as far as `width` allows, then below.
std::string side_by_side(const std::vector<TextBlock>& blocks, size_t width);
// The meaning of the shades; a second line about differences.
std::string legend_text(Ink ink, bool with_difference);

// The colour of a cell: weights by the root of their share of 1, differences by
// the root of their share of `span`; "" for a hidden cell that is 0.
std::string heat_colour(const HeatMap& map, int64_t i, int64_t j, double span);
// SVG: maps in rows of `across`, the title above, the meaning of colours below.
std::string heat_svg(const std::string& title, const std::vector<HeatMap>& maps,
                     size_t across);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_PICTURES_HEAT_MAP_H_
