// SPDX-License-Identifier: Apache-2.0
// A map of cells as SVG: names and numbers along its edges, and gaps where
// tiles can meet, so that an error at the border of a tile is seen to begin
// there. Small maps have their numbers in the cells.
#ifndef QKVET_REPORT_MAP_SVG_H_
#define QKVET_REPORT_MAP_SVG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/floors.h"

namespace qkvet::report {

struct MapCell {
  std::string fill;     // a colour, kHatch, or "" if hidden
  std::string number;   // shown if there is room
  std::string tip;      // shown under the pointer
  bool marked = false;  // crossed, with a number framed: no colour is needed
};

struct MapAxis {
  std::string name;   // "key"; "" for none
  int64_t cells = 1;  // along it
  int64_t step = 1;   // its unit, per cell
};

struct MapPicture {
  std::string title;
  MapAxis rows, columns;
  std::vector<MapCell> cells;  // [rows,columns]
  double room = 236;           // pixels that the cells of a side aim at
};

// A power of two: the cells between two gaps, and between two numbers along an
// edge. Tiles of kernels are powers of two, so their borders are at gaps.
int64_t cells_between_gaps(int64_t cells);

// Including everything around the cells.
struct MapSize {
  double width = 0, height = 0;
};
MapSize map_size(const MapPicture& map);
// Its upper left corner at the origin.
std::string map_svg(const MapPicture& map);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_MAP_SVG_H_
