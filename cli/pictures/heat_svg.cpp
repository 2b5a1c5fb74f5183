// SPDX-License-Identifier: Apache-2.0
// Heat maps of weights as a picture: each cell shows its number under the
// pointer.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "cli/pictures/heat_map.h"
#include "report/map_svg.h"
#include "report/svg.h"

namespace qkvet::cli {
namespace {

constexpr double kMargin = 20;
constexpr double kRoom = 336;  // pixels of the cells of a map

// The largest difference of all: the end of the colour scale.
double span_of(const std::vector<HeatMap>& maps) {
  double span = kShownDifference;
  for (const HeatMap& map : maps)
    for (const double value : map.values)
      if (map.difference && std::isfinite(value))
        span = std::max(span, std::fabs(value));
  return span;
}

// As on terminals: as many digits as fit a small cell.
std::string number_of(const HeatMap& map, double value) {
  return std::isnan(value) ? "nan"
         : map.difference  ? fmt::format("{:+.2f}", value)
                           : fmt::format("{:.2f}", value);
}

MapCell cell_of(const HeatMap& map, int64_t i, int64_t j, double span) {
  const double value = map.at(i, j);
  const bool none =
      map.difference ? std::fabs(value) < kShownDifference : value == 0;
  MapCell cell;
  cell.fill = heat_colour(map, i, j, span);
  if (map.sees(i, j) || !none) cell.number = number_of(map, value);
  cell.tip =
      fmt::format("query {}, key {}: {:.6g}{}", i * map.row_step,
                  j * map.column_step, value, map.sees(i, j) ? "" : ", hidden");
  return cell;
}

MapPicture picture_of(const HeatMap& map, double span) {
  MapPicture out;
  out.title = map.title;
  out.rows = {"query", map.rows, map.row_step};
  out.columns = {"key", map.columns, map.column_step};
  out.room = kRoom;
  for (int64_t i = 0; i < map.rows; ++i)
    for (int64_t j = 0; j < map.columns; ++j)
      out.cells.push_back(cell_of(map, i, j, span));
  return out;
}

template <class Predicate>
bool some_map(const std::vector<HeatMap>& maps, Predicate predicate) {
  return std::any_of(maps.begin(), maps.end(), predicate);
}

// The meaning of colours; as high as kLegendHeight.
constexpr double kLegendHeight = kScaleHeight + 50;
std::string legend_svg(const std::vector<HeatMap>& maps, double y,
                       double span) {
  std::string out = scale_svg(
      kMargin, y, "weight", /*diverging=*/false,
      {{0, "0"}, {0.25, "0.06"}, {0.5, "0.25"}, {0.75, "0.56"}, {1, "1"}});
  if (some_map(maps, [](const HeatMap& map) { return map.difference; }))
    out += scale_svg(kMargin * 3 + kScaleWidth, y, "actual - expected",
                     /*diverging=*/true,
                     {{0, fmt::format("{:.2g}", -span)},
                      {0.25, fmt::format("{:.1g}", -span / 4)},
                      {0.5, "0"},
                      {0.75, fmt::format("{:.1g}", span / 4)},
                      {1, fmt::format("{:.2g}", span)}});
  double x = kMargin;
  y += kScaleHeight + 8;
  const auto add_key = [&](const char* attribute, const char* text) {
    out += fmt::format(
               "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"14\" height=\"14\" "
               "{}/>",
               x, y, attribute) +
           svg_label(x + 20, y + 11, text, Anchor::kStart) + "\n";
    x += 40 + label_width(text);
  };
  if (some_map(maps, [](const HeatMap& map) {
        return std::count(map.visible.begin(), map.visible.end(), 0) > 0;
      }))
    add_key("class=\"edge\"", "hidden by the mask");
  if (some_map(maps, [](const HeatMap& map) {
        return std::any_of(map.values.begin(), map.values.end(),
                           [](double value) { return std::isnan(value); });
      }))
    add_key("fill=\"url(#hatch)\"", "not a number");
  if (const std::string text = reduction_text(maps.front()); !text.empty())
    out += svg_label(kMargin, y + 32, text, Anchor::kStart) + "\n";
  return out;
}

}  // namespace

std::string heat_colour(const HeatMap& map, int64_t i, int64_t j, double span) {
  const double value = map.at(i, j);
  if (std::isnan(value)) return kHatch;
  const bool none =
      map.difference ? std::fabs(value) < kShownDifference : value == 0;
  if (none && !map.sees(i, j)) return "";
  if (!map.difference)
    return sequential_colour(std::sqrt(std::min(std::fabs(value), 1.0)));
  if (none) return diverging_colour(0);
  const double share = std::sqrt(std::min(std::fabs(value) / span, 1.0));
  return diverging_colour(value < 0 ? -share : share);
}

std::string heat_svg(const std::string& title, const std::vector<HeatMap>& maps,
                     size_t across) {
  const double span = span_of(maps);
  std::vector<MapPicture> pictures;
  MapSize most;
  for (const HeatMap& map : maps) {
    pictures.push_back(picture_of(map, span));
    const MapSize size = map_size(pictures.back());
    most.width = std::max(most.width, size.width);
    most.height = std::max(most.height, size.height);
  }
  across = std::clamp<size_t>(across, 1, std::max<size_t>(maps.size(), 1));
  constexpr double kTop = 3 * kMargin;
  double right = 0, bottom = kTop;
  std::string body;
  for (size_t n = 0; n < pictures.size(); ++n) {
    const double x =
        kMargin + static_cast<double>(n % across) * (most.width + kMargin);
    const double y =
        kTop + static_cast<double>(n / across) * (most.height + kMargin);
    body += fmt::format("<g transform=\"translate({:.0f} {:.0f})\">\n{}</g>\n",
                        x, y, map_svg(pictures[n]));
    right = std::max(right, x + most.width);
    bottom = y + most.height + kMargin;
  }
  body += legend_svg(maps, bottom, span);
  const double width = kMargin + std::max(right, 2 * kScaleWidth + 3 * kMargin);
  // Cut to the available room; the whole text is shown under the pointer.
  constexpr double kLetter = 7.4;
  const auto room = static_cast<size_t>((width - 2 * kMargin) / kLetter);
  body += svg_label(
      kMargin, kMargin + 12,
      title.size() <= room ? title : title.substr(0, room - 3) + "...",
      Anchor::kStart, "case");
  return svg_document(title, width, bottom + kLegendHeight, body);
}

}  // namespace qkvet::cli
