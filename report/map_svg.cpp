// SPDX-License-Identifier: Apache-2.0
#include "report/map_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/lines.h"
#include "report/svg.h"

namespace qkvet::report {
namespace {

constexpr double kGap = 2;         // between tiles
constexpr double kTitleRoom = 20;  // above the cells
constexpr double kTickRoom = 17;   // a line of numbers, or of a name
constexpr int64_t kNumberedRows = 8;

// One direction of a map.
struct Side {
  double cell = 1;
  int64_t cells = 1, apart = 1;

  // At whole pixels, or neighbours would not meet.
  double at(int64_t n) const {
    const double place =
        static_cast<double>(n) * cell + static_cast<double>(n / apart) * kGap;
    return cell < 1 ? place : std::round(place);
  }
  double size(int64_t n) const {
    const double gap = (n + 1) % apart == 0 ? kGap : 0;
    return at(n + 1) - gap - at(n);
  }
  double length() const { return at(cells - 1) + size(cells - 1); }
};

// The positions of all parts.
struct Layout {
  Side across, down;
  bool numbered = false;
  double left = 0;  // of the cells
  double over = 0;  // room right of them
};

// Below the cells. A single row has no room for words at its side.
std::string words_below(const MapPicture& map) {
  return map.rows.cells > 1 || map.rows.name.empty()
             ? map.columns.name
             : map.columns.name + ", " + map.rows.name + " 0";
}

Layout layout_of(const MapPicture& map) {
  const int64_t rows = map.rows.cells, columns = map.columns.cells;
  size_t longest = 1;
  for (const MapCell& cell : map.cells)
    longest = std::max(longest, cell.number.size());
  const double with_number =
      std::max(34.0, 7 * static_cast<double>(longest) + 8);
  Layout out;
  out.numbered = rows <= kNumberedRows && columns <= kNumberedRows &&
                 with_number * static_cast<double>(columns) <= 1.5 * map.room;
  // Limits, so that a single row is visible, a row of thousands is no wider
  // than a page, and no cell is a line.
  constexpr double kMostSide = 28, kFlat = 22, kMostAspect = 6;
  const auto room_of = [&](int64_t cells) {
    return map.room / static_cast<double>(cells);
  };
  double wide = std::clamp(room_of(columns),
                           std::min(1.0, 3 * room_of(columns)), kMostSide);
  double high = rows < 4 ? kFlat : std::clamp(room_of(rows), 1.0, kMostSide);
  if (rows >= 4) {
    high = std::min(high, wide * kMostAspect);
    wide = std::min(wide, high * kMostAspect);
  }
  if (out.numbered) {
    wide = with_number;
    high = 26;
  }
  out.across = {wide, columns, cells_between_gaps(columns)};
  out.down = {high, rows, cells_between_gaps(rows)};
  if (rows > 1)
    out.left = label_width(std::to_string((rows - 1) * map.rows.step)) + 10 +
               kTickRoom;
  // Words in the middle of an edge may be longer than it.
  out.over =
      std::max(8.0, (label_width(words_below(map)) - out.across.length()) / 2);
  out.left = std::ceil(std::max(out.left, out.over));
  return out;
}

std::string cell_svg(const MapCell& cell, double x, double y, double width,
                     double height, bool numbered) {
  const char* ink = cell.fill.empty() ? "" : ink_on(cell.fill);
  std::string out = fmt::format(
      "<rect x=\"{:.4g}\" y=\"{:.4g}\" width=\"{:.3g}\" height=\"{:.3g}\" "
      "{}=\"{}\"><title>{}</title></rect>",
      x, y, width, height, cell.fill.empty() ? "class" : "fill",
      cell.fill.empty() ? "hidden" : cell.fill, xml_escaped(cell.tip));
  if (numbered && !cell.number.empty())
    out += svg_label(x + width / 2, y + height / 2 + 4, cell.number,
                     Anchor::kMiddle, fmt::format("number {}", ink).c_str());
  if (!cell.marked) return out;
  const double inset = numbered ? 2 : width / 4,
               rise = numbered ? 2 : height / 4;
  const double right = x + width - inset, low = y + height - rise;
  out += numbered ? fmt::format(
                        "<path class=\"cross frame {}\" d=\"M{:.4g} {:.4g}"
                        "H{:.4g}V{:.4g}H{:.4g}Z\"/>",
                        ink, x + inset, y + rise, right, low, x + inset)
                  : fmt::format(
                        "<path class=\"cross {}\" d=\"M{:.4g} {:.4g}L{:.4g} "
                        "{:.4g}M{:.4g} {:.4g}L{:.4g} {:.4g}\"/>",
                        ink, x + inset, y + rise, right, low, right, y + rise,
                        x + inset, low);
  return out;
}

// Numbers along the edges, and their meaning.
std::string edges_svg(const MapPicture& map, const Layout& at) {
  std::string out;
  const double below = kTitleRoom + at.down.length();
  for (int64_t n = 0; n < map.columns.cells; n += at.across.apart)
    out += svg_label(at.left + at.across.at(n) + at.across.size(n) / 2,
                     below + 13, std::to_string(n * map.columns.step));
  const bool flat = map.rows.cells == 1;
  for (int64_t n = 0; !flat && n < map.rows.cells; n += at.down.apart)
    out += svg_label(at.left - 5,
                     kTitleRoom + at.down.at(n) + at.down.size(n) / 2 + 4,
                     std::to_string(n * map.rows.step), Anchor::kEnd);
  out += svg_label(at.left + at.across.length() / 2, below + 13 + kTickRoom,
                   words_below(map));
  if (!flat)
    out += fmt::format(
        "<g transform=\"translate(12 {:.1f}) rotate(-90)\">{}</g>",
        kTitleRoom + at.down.length() / 2, svg_label(0, 0, map.rows.name));
  return out;
}

}  // namespace

int64_t cells_between_gaps(int64_t cells) {
  constexpr int64_t kMostTiles = 8;
  int64_t apart = 1;
  while (apart * kMostTiles < cells) apart *= 2;
  return apart;
}

MapSize map_size(const MapPicture& map) {
  constexpr double kBold = 1.15;  // wider letters
  const Layout at = layout_of(map);
  return {at.left + std::max(at.across.length() + at.over,
                             kBold * label_width(map.title)),
          kTitleRoom +
              std::max(at.down.length(),
                       map.rows.cells > 1 ? label_width(map.rows.name) : 0) +
              2 * kTickRoom};
}

std::string map_svg(const MapPicture& map) {
  const Layout at = layout_of(map);
  std::string out =
      svg_label(at.left, 13, map.title, Anchor::kStart, "title") + "\n";
  for (int64_t i = 0; i < map.rows.cells; ++i) {
    for (int64_t j = 0; j < map.columns.cells; ++j)
      out += cell_svg(map.cells[static_cast<size_t>(i * map.columns.cells + j)],
                      at.left + at.across.at(j), kTitleRoom + at.down.at(i),
                      at.across.size(j), at.down.size(i), at.numbered);
    out += "\n";
  }
  // Also if all cells are as light as the paper.
  out += fmt::format(
      "<rect class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
      "height=\"{:.1f}\"/>",
      at.left - 0.5, kTitleRoom - 0.5, at.across.length() + 1,
      at.down.length() + 1);
  return out + edges_svg(map, at) + "\n";
}

}  // namespace qkvet::report
