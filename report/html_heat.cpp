// SPDX-License-Identifier: Apache-2.0
// Heat maps of the expected and actual numbers of a failing call, and of the
// error. Every cell has its numbers as a title; a small map shows them; wrong
// cells are marked, so that they do not depend on colour.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/html_parts.h"
#include "report/lines.h"
#include "report/map_svg.h"
#include "report/svg.h"

namespace qkvet::report {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

bool is_off(const OutputNumbers& tensor, size_t n) {
  if (std::isnan(tensor.expected[n])) return !std::isnan(tensor.actual[n]);
  return !(tensor.low[n] <= tensor.actual[n] &&
           tensor.actual[n] <= tensor.high[n]);
}

// error| / the bound on that side.
double excess(const OutputNumbers& tensor, size_t n) {
  const double actual = tensor.actual[n], expected = tensor.expected[n];
  if (!is_off(tensor, n) && !(actual != expected)) return 0;
  if (!std::isfinite(actual) || !std::isfinite(expected))
    return is_off(tensor, n) ? kEndless : 0;
  const double allowed =
      actual > expected ? tensor.high[n] - expected : expected - tensor.low[n];
  const double error = std::fabs(actual - expected);
  return error == 0 ? 0 : allowed > 0 ? error / allowed : kEndless;
}

// With the sign of the error: positive if too high.
double signed_excess(const OutputNumbers& tensor, size_t n) {
  const double size = excess(tensor, n);
  if (size == 0) return 0;
  const double actual = tensor.actual[n], expected = tensor.expected[n];
  if (std::isnan(actual) || std::isnan(expected)) return std::nan("");
  return actual < expected ? -size : size;
}

// The subject of a map.
struct HeatView {
  const char* head;
  double (*value)(const OutputNumbers& tensor, size_t n);
  bool is_error;
};
constexpr HeatView kViews[] = {
    {"expected",
     [](const OutputNumbers& tensor, size_t n) { return tensor.expected[n]; },
     false},
    {"actual",
     [](const OutputNumbers& tensor, size_t n) { return tensor.actual[n]; },
     false},
    {"error/bound", signed_excess, true}};

struct Range {
  double low = kEndless, high = -kEndless;

  void add(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// Pale up to the bound; beyond it, six decades from slightly wrong to hopeless.
double error_share(double value) {
  constexpr double kPale = 0.3, kBeyond = 0.5, kDecades = 6;
  const double size = std::fabs(value);
  const double share =
      size <= 1 ? kPale * size
                : kBeyond + (1 - kBeyond) *
                                std::min(1.0, std::log10(size) / kDecades);
  return value < 0 ? -share : share;
}

std::string colour_of(const HeatView& view, const Range& range, double value) {
  if (std::isnan(value)) return kHatch;
  if (view.is_error) return diverging_colour(error_share(value));
  if (std::isinf(value)) return sequential_colour(value > 0 ? 1 : 0);
  const double width = range.high - range.low;
  return sequential_colour(width > 0 ? (value - range.low) / width : 0.5);
}

// Rows and columns: the last two axes, of one combination of those in front.
struct Slice {
  size_t from = 0;
  int64_t rows = 1, columns = 1;
  std::string place;  // "b=0, h=1"
  char row_axis = ' ', column_axis = ' ';
  int64_t wrong = 0;
};

std::vector<Slice> slices_of(const OutputNumbers& tensor) {
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
  // Slices with wrong numbers come first.
  std::stable_partition(out.begin(), out.end(),
                        [](const Slice& slice) { return slice.wrong > 0; });
  return out;
}

// The meaning of the letters of a tensor's axes.
std::string axis_name(char letter) {
  constexpr std::pair<char, const char*> kNames[] = {
      {'b', "member"}, {'h', "head"},    {'i', "query"},
      {'j', "key"},    {'c', "channel"}, {'t', "token"}};
  for (const auto& [one, name] : kNames)
    if (one == letter) return name;
  return letter == ' ' ? "" : std::string(1, letter);
}

MapCell map_cell(const OutputNumbers& tensor, const HeatView& view,
                 const Range& range, const Slice& slice, int64_t row,
                 int64_t column) {
  const size_t n =
      slice.from + static_cast<size_t>(row * slice.columns + column);
  const double value = view.value(tensor, n);
  MapCell cell;
  cell.fill = colour_of(view, range, value);
  cell.number = view.is_error && std::fabs(value) > 0
                    ? fmt::format("{:+.2g}", value)
                    : fmt::format("{:.3g}", value);
  cell.tip = fmt::format(
      "{}={} {}={}: expected {:.9g}, actual {:.9g}, error/bound {:.3g}",
      slice.row_axis, row, slice.column_axis, column, tensor.expected[n],
      tensor.actual[n], excess(tensor, n));
  cell.marked = view.is_error && is_off(tensor, n);
  return cell;
}

std::string map_figure(const OutputNumbers& tensor, const HeatView& view,
                       const Range& range, const Slice& slice) {
  MapPicture map;
  map.title = view.head;
  map.rows = {axis_name(slice.row_axis), slice.rows};
  map.columns = {axis_name(slice.column_axis), slice.columns};
  for (int64_t row = 0; row < slice.rows; ++row)
    for (int64_t column = 0; column < slice.columns; ++column)
      map.cells.push_back(map_cell(tensor, view, range, slice, row, column));
  const MapSize size = map_size(map);
  return fmt::format(
      "<figure><svg role=\"img\" class=\"picture\" width=\"{0:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" aria-label=\"{2}, {3}: {4} of {5} "
      "elements outside of what is allowed\">\n{6}</svg></figure>\n",
      size.width, size.height, xml_escaped(tensor.name), view.head, slice.wrong,
      slice.rows * slice.columns, map_svg(map));
}

// Below the maps; the scale of errors is always the same.
std::string scales(const Range& range) {
  const auto scale = [](const std::string& what, bool diverging,
                        const std::vector<ScaleMark>& marks) {
    return fmt::format(
        "<svg role=\"img\" class=\"picture\" width=\"{0}\" viewBox=\"-8 0 {0} "
        "{1}\" aria-label=\"{2}\">{3}</svg>\n",
        kScaleWidth + 16, kScaleHeight, what,
        scale_svg(0, 0, what, diverging, marks));
  };
  std::string out = "<div class=\"maps scales\">\n";
  if (range.low <= range.high)
    out += scale("expected and actual", /*diverging=*/false,
                 {{0, fmt::format("{:.4g}", range.low)},
                  {1, fmt::format("{:.4g}", range.high)}});
  const auto place = [](double ratio) { return (1 + error_share(ratio)) / 2; };
  out += scale("error/bound: marked beyond 1", /*diverging=*/true,
               {{0, "-1e6, too low"},
                {place(-1), "-1"},
                {place(0), "0"},
                {place(1), "1"},
                {1, "too high, 1e6"}});
  return out + "</div>\n";
}

// "b=0, h=0, i=1, c=0"
std::string element_text(const OutputNumbers& tensor, size_t n) {
  const size_t axes = tensor.shape.size(), shift = axes == 2 ? 1 : 0;
  std::string out;
  for (size_t axis = axes; axis-- > 0;) {
    const auto extent = static_cast<size_t>(tensor.shape[axis]);
    out = fmt::format("{}={}{}{}", tensor.axes[axis + shift], n % extent,
                      out.empty() ? "" : ", ", out);
    n /= extent;
  }
  return out;
}

// Too few numbers for a map: they are rows of a table.
bool is_small(const OutputNumbers& tensor) {
  constexpr size_t kLeastForAMap = 4;
  return tensor.actual.size() < kLeastForAMap;
}

std::string number_rows(const OutputNumbers& tensor, const std::string& place) {
  std::string out;
  for (size_t n = 0; n < tensor.actual.size(); ++n)
    out += fmt::format(
        "<tr{}><th scope=\"row\">{}{}[{}]</th><td>{:.9g}</td><td>{:.9g} .. "
        "{:.9g}</td><td>{:.9g}</td><td>{}</td></tr>\n",
        is_off(tensor, n) ? " class=\"off\"" : "",
        place.empty() ? "" : xml_escaped(place) + ": ",
        xml_escaped(tensor.name), xml_escaped(element_text(tensor, n)),
        tensor.expected[n], tensor.low[n], tensor.high[n], tensor.actual[n],
        ratio_text(excess(tensor, n)));
  return out;
}

std::string number_table(const std::string& rows) {
  return rows.empty()
             ? ""
             : "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
               "aria-label=\"Numbers of the case\">\n<table "
               "class=\"numbers\"><thead><tr><th scope=\"col\">element</th>"
               "<th scope=\"col\">expected</th><th "
               "scope=\"col\">allowed</th><th scope=\"col\">actual</th><th "
               "scope=\"col\">error/bound</th></tr></thead>\n<tbody>\n" +
                   rows + "</tbody></table></div>\n";
}

std::string tensor_maps(const OutputNumbers& tensor, const std::string& place) {
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
      out += map_figure(tensor, view, range, slice);
    out += "</div>\n";
  }
  if (slices.size() > kMostSlices)
    out += fmt::format("<p class=\"quiet\">and {} more of {}</p>\n",
                       slices.size() - kMostSlices, xml_escaped(tensor.name));
  return out + scales(range);
}

}  // namespace

std::string html_heat_maps(const FailureLine& failure) {
  // Stories have many calls: the wrong ones come first.
  constexpr size_t kMostMaps = 4;
  std::vector<std::pair<std::string, const OutputNumbers*>> maps;
  for (size_t i = 0; i < failure.calls.size(); ++i) {
    const CallNumbers& call = failure.calls[i];
    const bool numbered = call.place.empty() && failure.calls.size() > 1;
    for (const OutputNumbers& output : call.outputs)
      maps.emplace_back(numbered ? fmt::format("call {}", i) : call.place,
                        &output);
  }
  std::stable_partition(maps.begin(), maps.end(), [](const auto& one) {
    for (size_t n = 0; n < one.second->actual.size(); ++n)
      if (is_off(*one.second, n)) return true;
    return false;
  });
  std::string out, rows;
  size_t numbers = 0;
  for (size_t i = 0; i < std::min(kMostMaps, maps.size()); ++i) {
    const auto& [place, output] = maps[i];
    const OutputNumbers& tensor = *output;
    if (!is_small(tensor)) {
      out += tensor_maps(tensor, place);
      continue;
    }
    numbers += tensor.actual.size();
    rows += number_rows(tensor, place);
  }
  // A single number is named above.
  if (numbers > 1 || !out.empty()) out = number_table(rows) + out;
  return out.empty() ? ""
                     : "<details open><summary>Expected, actual and "
                       "error</summary>\n" +
                           out + "</details>\n";
}

}  // namespace qkvet::report
