// SPDX-License-Identifier: Apache-2.0
// Heat maps as pictures: rectangles and labels at whole pixels, which become
// SVG text or the pixels of a PNG file.
#ifndef QKVET_TOOLS_PICTURES_HEAT_DRAWING_H_
#define QKVET_TOOLS_PICTURES_HEAT_DRAWING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tools/pictures/heat_map.h"

namespace qkvet::tools {

struct Rgb {
  uint8_t r = 255, g = 255, b = 255;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

// The colour of a cell. Weights: viridis (Smith and van der Walt, 2015, CC0)
// along the square root; what nothing may look at and nothing does: grey.
// Differences: white is none, red too much, blue too little. NaN: magenta.
Rgb heat_colour(const HeatMap& map, int64_t i, int64_t j);

struct Rect {
  int x = 0, y = 0, width = 0, height = 0;
  Rgb colour;
  std::string tip;  // "i=3 j=2: 0.25"; "" for none
};

enum class Anchor : uint8_t { kLeft, kMiddle, kRight };

// (x, y): the upper edge of the letters, and their left, middle or right.
struct Label {
  int x = 0, y = 0;
  std::string text;
  Anchor anchor = Anchor::kLeft;
};

// Letters of 5 x 7 dots of kDot pixels, one dot apart.
inline constexpr int kDot = 2;
inline constexpr int kLetterWidth = 6 * kDot;
inline constexpr int kLetterHeight = 7 * kDot;

struct Drawing {
  int width = 0, height = 0;
  std::string title;  // told whole in SVG, as far as there is room in pixels
  std::vector<Rect> rects;
  std::vector<Label> labels;
};

// `maps` in rows of `across`, with the title above and what colours mean below.
Drawing draw_heat_maps(const std::string& title,
                       const std::vector<HeatMap>& maps, int across);
// The upper left pixel of a cell of map number n of such a drawing, and the
// size of its cells.
struct CellPlace {
  int x = 0, y = 0, size = 0;
};
CellPlace cell_place(const std::vector<HeatMap>& maps, int across, size_t n,
                     int64_t i, int64_t j);

std::string svg_text(const Drawing& drawing);

// Row-major RGB, 3 x width x height bytes.
std::vector<uint8_t> pixels_of(const Drawing& drawing);
// The bytes of a PNG file; "" with *error if the library has an objection.
std::string png_bytes(const Drawing& drawing, std::string* error);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_PICTURES_HEAT_DRAWING_H_
