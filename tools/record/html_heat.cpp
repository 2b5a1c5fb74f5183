// SPDX-License-Identifier: Apache-2.0
// Heat maps of what a failing call had to give, gave, and by how much it is
// off. Every cell has its numbers as a title; a small map shows them; wrong
// cells are crossed, so that no colour is needed to find them.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/base/lines.h"
#include "tools/record/html_parts.h"

namespace qkvet::tools {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

// One output of a call, as the record has it.
struct HeatTensor {
  std::string name, axes;
  std::vector<int64_t> shape;
  std::vector<double> expected, low, high, actual;
};

// Numbers of an array, with "nan", "inf" and "-inf" for what JSON lacks.
std::vector<double> numbers_of(const Json& json, const char* field) {
  std::vector<double> out;
  const Json& values = part_of(json, field);
  if (!values.is_array()) return out;
  for (const Json& value : values)
    if (value.is_number())
      out.push_back(value.get<double>());
    else
      out.push_back(value == "inf"    ? kEndless
                    : value == "-inf" ? -kEndless
                                      : std::nan(""));
  return out;
}

// False where sizes do not fit together.
bool read_tensor(const Json& output, HeatTensor& out) {
  constexpr size_t kMostAxes = 4;
  out.name = text_of(output, "name");
  out.axes = text_of(output, "axes");
  for (const double extent : numbers_of(output, "shape"))
    out.shape.push_back(static_cast<int64_t>(extent));
  int64_t elements = 1;
  for (const int64_t extent : out.shape)
    elements *= std::clamp<int64_t>(extent, 0, 1 << 20);
  out.expected = numbers_of(output, "expected");
  out.low = numbers_of(output, "low");
  out.high = numbers_of(output, "high");
  out.actual = numbers_of(output, "actual");
  // Two axes stand for the last but one and what is in front of it.
  const size_t needed = out.shape.size() + (out.shape.size() == 2 ? 1 : 0);
  if (out.shape.empty() || out.shape.size() > kMostAxes ||
      out.axes.size() < needed || elements < 1)
    return false;
  for (const auto* values : {&out.expected, &out.low, &out.high, &out.actual})
    if (std::ssize(*values) != elements) return false;
  return true;
}

bool is_off(const HeatTensor& tensor, size_t n) {
  if (std::isnan(tensor.expected[n])) return !std::isnan(tensor.actual[n]);
  return !(tensor.low[n] <= tensor.actual[n] &&
           tensor.actual[n] <= tensor.high[n]);
}

// |error| / what is allowed on that side.
double excess(const HeatTensor& tensor, size_t n) {
  const double actual = tensor.actual[n], expected = tensor.expected[n];
  if (!is_off(tensor, n) && !(actual != expected)) return 0;
  if (!std::isfinite(actual) || !std::isfinite(expected))
    return is_off(tensor, n) ? kEndless : 0;
  const double allowed =
      actual > expected ? tensor.high[n] - expected : expected - tensor.low[n];
  const double error = std::fabs(actual - expected);
  return error == 0 ? 0 : allowed > 0 ? error / allowed : kEndless;
}

struct Rgb {
  double red, green, blue;
};

std::string mixed(const Rgb* stops, int count, double at) {
  const double place = std::clamp(at, 0.0, 1.0) * (count - 1);
  const int first = std::min(static_cast<int>(place), count - 2);
  const double part = place - first;
  const auto mix = [part](double a, double b) {
    return static_cast<int>(std::lround(a + (b - a) * part));
  };
  const Rgb& a = stops[first];
  const Rgb& b = stops[first + 1];
  return fmt::format("#{:02x}{:02x}{:02x}", mix(a.red, b.red),
                     mix(a.green, b.green), mix(a.blue, b.blue));
}

// Viridis (van der Walt and Smith, 2015): even to the eye, in grey, and to
// those who do not tell red from green.
constexpr Rgb kViridis[] = {
    {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
// Within the bound blues, beyond it oranges (Okabe and Ito, 2008).
constexpr Rgb kWithin[] = {{241, 246, 250}, {86, 180, 233}};
constexpr Rgb kBeyond[] = {{240, 160, 60}, {213, 94, 0}, {110, 40, 0}};

// What a map is of: a value and its colour.
struct HeatView {
  const char* head;
  double (*value)(const HeatTensor& tensor, size_t n);
  bool is_error;
};
constexpr HeatView kViews[] = {
    {"expected",
     [](const HeatTensor& tensor, size_t n) { return tensor.expected[n]; },
     false},
    {"actual",
     [](const HeatTensor& tensor, size_t n) { return tensor.actual[n]; },
     false},
    {"error/bound", excess, true}};

struct Range {
  double low = kEndless, high = -kEndless;

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

std::string colour_of(const HeatView& view, const Range& range, double value) {
  if (std::isnan(value)) return "url(#hatch)";
  if (view.is_error) {
    if (value <= 1) return mixed(kWithin, 2, value);
    // Six decades from just beyond to hopeless.
    return mixed(kBeyond, 3, std::isinf(value) ? 1 : std::log10(value) / 6);
  }
  if (std::isinf(value)) return mixed(kViridis, 5, value > 0 ? 1 : 0);
  const double width = range.high - range.low;
  return mixed(kViridis, 5, width > 0 ? (value - range.low) / width : 0.5);
}

// Whether words on the colour are to be light.
bool is_dark(const std::string& colour) {
  if (colour[0] != '#') return false;
  const int red = std::stoi(colour.substr(1, 2), nullptr, 16);
  const int green = std::stoi(colour.substr(3, 2), nullptr, 16);
  const int blue = std::stoi(colour.substr(5, 2), nullptr, 16);
  return 299 * red + 587 * green + 114 * blue < 128 * 1000;
}

// Rows and columns: the last two axes, of one combination of those in front.
struct Slice {
  size_t from = 0;
  int64_t rows = 1, columns = 1;
  std::string place;  // "b=0, h=1"
  char row_axis = ' ', column_axis = ' ';
  int64_t wrong = 0;
};

std::vector<Slice> slices_of(const HeatTensor& tensor) {
  const size_t axes = tensor.shape.size();
  const size_t shift = axes == 2 ? 1 : 0;
  Slice whole;
  whole.columns = tensor.shape[axes - 1];
  whole.column_axis = tensor.axes[axes - 1 + shift];
  if (axes > 1) {
    whole.rows = tensor.shape[axes - 2];
    whole.row_axis = tensor.axes[axes - 2 + shift];
  }
  const auto size = static_cast<size_t>(whole.rows * whole.columns);
  std::vector<Slice> out;
  for (size_t from = 0; from < tensor.actual.size(); from += size) {
    Slice slice = whole;
    slice.from = from;
    size_t rest = from / size;
    for (size_t axis = axes > 2 ? axes - 2 : 0; axis-- > 0;) {
      const auto extent = static_cast<size_t>(tensor.shape[axis]);
      slice.place = fmt::format("{}={}{}{}", tensor.axes[axis], rest % extent,
                                slice.place.empty() ? "" : ", ", slice.place);
      rest /= extent;
    }
    for (size_t n = from; n < from + size; ++n)
      slice.wrong += is_off(tensor, n);
    out.push_back(std::move(slice));
  }
  // Where it is wrong stands in front.
  std::stable_partition(out.begin(), out.end(),
                        [](const Slice& slice) { return slice.wrong > 0; });
  return out;
}

struct CellSize {
  double width, height;
  bool with_numbers;
};
CellSize cell_size(const Slice& slice) {
  constexpr double kRoom = 236;  // three stand side by side on a tablet
  if (slice.columns <= 5 && slice.rows <= 8) return {70, 26, true};
  const double width = kRoom / static_cast<double>(slice.columns);
  const double height = kRoom / static_cast<double>(slice.rows);
  const double side = std::clamp(std::min(width, height), 1.0, 22.0);
  // A single row is high enough to be seen.
  return {std::clamp(width, 1.0, side * 2), slice.rows < 4 ? 22 : side, false};
}

std::string cell_svg(const HeatTensor& tensor, const HeatView& view,
                     const Range& range, const Slice& slice, int64_t row,
                     int64_t column) {
  const CellSize cell = cell_size(slice);
  const size_t n =
      slice.from + static_cast<size_t>(row * slice.columns + column);
  const double value = view.value(tensor, n);
  const std::string colour = colour_of(view, range, value);
  const double x = static_cast<double>(column) * cell.width;
  const double y = static_cast<double>(row) * cell.height;
  const bool wrong = is_off(tensor, n);
  std::string out = fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
      "fill=\"{}\"><title>{}={} {}={}: expected {:.9g}, actual {:.9g}, "
      "error/bound {:.3g}</title></rect>",
      x, y, cell.width, cell.height, colour, slice.row_axis, row,
      slice.column_axis, column, tensor.expected[n], tensor.actual[n],
      excess(tensor, n));
  const char* ink = is_dark(colour) ? "light" : "dark";
  if (cell.with_numbers)
    out += fmt::format(
        "<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{:.3g}</text>", ink,
        x + cell.width / 2, y + cell.height / 2 + 4, value);
  if (view.is_error && wrong && !cell.with_numbers)
    out += fmt::format(
        "<path class=\"{}\" d=\"M{:.2f} {:.2f}L{:.2f} {:.2f}M{:.2f} "
        "{:.2f}L{:.2f} {:.2f}\"/>",
        ink, x + cell.width * 0.25, y + cell.height * 0.25,
        x + cell.width * 0.75, y + cell.height * 0.75, x + cell.width * 0.75,
        y + cell.height * 0.25, x + cell.width * 0.25, y + cell.height * 0.75);
  if (view.is_error && wrong && cell.with_numbers)
    out += fmt::format(
        "<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
        "height=\"{:.1f}\"/>",
        x + 2, y + 2, cell.width - 4, cell.height - 4);
  return out;
}

// "j 0 .. 63" along an edge.
std::string edge_text(char axis, int64_t extent) {
  return extent == 1 ? fmt::format("{} = 0", axis)
                     : fmt::format("{} 0 .. {}", axis, extent - 1);
}

std::string map_svg(const HeatTensor& tensor, const HeatView& view,
                    const Range& range, const Slice& slice) {
  constexpr double kLeft = 22, kBottom = 20;
  const CellSize cell = cell_size(slice);
  const double width = static_cast<double>(slice.columns) * cell.width;
  const double height = static_cast<double>(slice.rows) * cell.height;
  // Of a single row there is no room for words along its side.
  const bool flat = slice.rows == 1 || slice.row_axis == ' ';
  std::string under = edge_text(slice.column_axis, slice.columns);
  if (flat && slice.row_axis != ' ')
    under = edge_text(slice.row_axis, slice.rows) + ", " + under;
  std::string cells;
  for (int64_t row = 0; row < slice.rows; ++row)
    for (int64_t column = 0; column < slice.columns; ++column)
      cells += cell_svg(tensor, view, range, slice, row, column);
  // Words need room that a map of few cells has not.
  const double wide = std::max(width, 110.0);
  const double high = slice.rows > 1 ? std::max(height, 60.0) : height;
  return fmt::format(
      "<figure><svg role=\"img\" viewBox=\"{} -1 {:.1f} {:.1f}\" "
      "width=\"{:.0f}\" class=\"map\" aria-label=\"{}, {}: {} of {} elements "
      "outside of what is allowed\">{}<text class=\"edge\" x=\"{:.1f}\" "
      "y=\"{:.1f}\">{}</text><text class=\"edge\" transform=\"translate(-7 "
      "{:.1f}) rotate(-90)\">{}</text></svg><figcaption>{}</figcaption>"
      "</figure>\n",
      -kLeft, wide + kLeft + 2, high + kBottom, wide + kLeft + 2,
      xml_escaped(tensor.name), view.head, slice.wrong,
      slice.rows * slice.columns, cells, width / 2, height + 14, under,
      height / 2, flat ? "" : edge_text(slice.row_axis, slice.rows), view.head);
}

// A scale under the maps of values; that of errors is always the same.
std::string scale_text(const Range& range) {
  if (range.low > range.high) return "";
  return fmt::format(
      "<p class=\"quiet scale\">expected and actual: <span class=\"ramp "
      "viridis\"></span> {:.4g} .. {:.4g}; error/bound: <span class=\"ramp "
      "within\"></span> 0 .. 1, <span class=\"ramp beyond\"></span> 1 .. 1e6, "
      "crossed or framed</p>\n",
      range.low, range.high);
}

std::string tensor_maps(const HeatTensor& tensor, const std::string& place) {
  constexpr size_t kMostSlices = 4;
  Range range;
  for (const double value : tensor.expected) range.add(value);
  for (const double value : tensor.actual) range.add(value);
  const std::vector<Slice> slices = slices_of(tensor);
  std::string out;
  for (size_t i = 0; i < std::min(kMostSlices, slices.size()); ++i) {
    const Slice& slice = slices[i];
    out += fmt::format(
        "<h5>{}{}{} <span class=\"quiet\">{} of {} elements outside of what is "
        "allowed</span></h5>\n<div class=\"maps\">\n",
        place.empty() ? "" : xml_escaped(place) + ": ",
        xml_escaped(tensor.name),
        slice.place.empty() ? "" : "[" + xml_escaped(slice.place) + "]",
        slice.wrong, slice.rows * slice.columns);
    for (const HeatView& view : kViews)
      out += map_svg(tensor, view, range, slice);
    out += "</div>\n";
  }
  if (slices.size() > kMostSlices)
    out += fmt::format("<p class=\"quiet\">and {} more of {}</p>\n",
                       slices.size() - kMostSlices, xml_escaped(tensor.name));
  return out + scale_text(range);
}

}  // namespace

std::string html_heat_maps(const Json& failure) {
  // Stories have many calls: what is wrong stands in front.
  constexpr size_t kMostMaps = 4;
  const Json& calls = part_of(failure, "calls");
  if (!calls.is_array()) return "";
  std::vector<std::pair<std::string, HeatTensor>> maps;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Json& outputs = part_of(calls[i], "outputs");
    if (!outputs.is_array()) continue;
    std::string place = text_of(calls[i], "place");
    if (place.empty() && calls.size() > 1) place = fmt::format("call {}", i);
    for (const Json& output : outputs)
      if (HeatTensor tensor; read_tensor(output, tensor))
        maps.emplace_back(place, std::move(tensor));
  }
  std::stable_partition(maps.begin(), maps.end(), [](const auto& one) {
    for (size_t n = 0; n < one.second.actual.size(); ++n)
      if (is_off(one.second, n)) return true;
    return false;
  });
  std::string out;
  for (size_t i = 0; i < std::min(kMostMaps, maps.size()); ++i)
    out += tensor_maps(maps[i].second, maps[i].first);
  return out.empty() ? ""
                     : "<details open><summary>Expected, actual and "
                       "error</summary>\n" +
                           out + "</details>\n";
}

}  // namespace qkvet::tools
