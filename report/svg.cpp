// SPDX-License-Identifier: Apache-2.0
#include "report/svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "report/lines.h"

namespace qkvet::report {
namespace {

constexpr std::string_view kStyle =
#include "picture.css.inc"
    ;

struct Rgb {
  double red, green, blue;
};
constexpr Rgb kViridis[] = {
    {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37}};
constexpr Rgb kBlueToOrange[] = {
    {5, 48, 97}, {86, 160, 211}, {250, 250, 250}, {240, 150, 50}, {120, 45, 0}};

// `share` of the way along the stops.
std::string mixed(std::span<const Rgb> stops, double share) {
  const double place =
      std::clamp(share, 0.0, 1.0) * static_cast<double>(stops.size() - 1);
  const size_t first = std::min(static_cast<size_t>(place), stops.size() - 2);
  const Rgb &a = stops[first], &b = stops[first + 1];
  const auto mix = [part = place - static_cast<double>(first)](double from,
                                                               double to) {
    return static_cast<int>(std::lround(from + (to - from) * part));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(a.red, b.red),
                     mix(a.green, b.green), mix(a.blue, b.blue));
}

std::string gradient(const char* id, std::span<const Rgb> stops) {
  std::string out = fmt::format("<linearGradient id=\"{}\">", id);
  for (size_t n = 0; n < stops.size(); ++n) {
    const double share =
        static_cast<double>(n) / static_cast<double>(stops.size() - 1);
    out += fmt::format("<stop offset=\"{}\" stop-color=\"{}\"/>", share,
                       mixed(stops, share));
  }
  return out + "</linearGradient>";
}

}  // namespace

std::string sequential_colour(double share) { return mixed(kViridis, share); }

std::string diverging_colour(double share) {
  return mixed(kBlueToOrange, (share + 1) / 2);
}

const char* ink_on(const std::string& colour) {
  if (colour[0] != '#') return "dark";
  const int rgb = std::stoi(colour.substr(1), nullptr, 16);
  const int light =
      299 * (rgb >> 16) + 587 * ((rgb >> 8) & 255) + 114 * (rgb & 255);
  return light < 128 * 1000 ? "light" : "dark";
}

std::string svg_label(double x, double y, const std::string& text,
                      Anchor anchor, const char* kind) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>", x, y,
      kAnchors[static_cast<int>(anchor)],
      *kind == 0 ? "" : fmt::format(" class=\"{}\"", kind), xml_escaped(text));
}

double label_width(std::string_view text) {
  constexpr double kLetter = 7;  // of 12 px, on the wide side
  return kLetter * static_cast<double>(text.size());
}

std::string scale_svg(double x, double y, const std::string& what,
                      bool diverging, const std::vector<ScaleMark>& marks) {
  constexpr double kBar = 12;
  std::string out = svg_label(x, y + 10, what, Anchor::kStart);
  out += fmt::format(
      "<rect class=\"bar\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" "
      "height=\"{}\" style=\"fill:url(#{})\"/>",
      x, y + 16, kScaleWidth, kBar, diverging ? "diverging" : "viridis");
  for (const ScaleMark& mark : marks)
    out +=
        svg_label(x + mark.share * kScaleWidth, y + 16 + kBar + 13, mark.text,
                  mark.share == 0   ? Anchor::kStart
                  : mark.share == 1 ? Anchor::kEnd
                                    : Anchor::kMiddle);
  return out + "\n";
}

std::string_view picture_style() {
  // Without the licence of the file: the picture is the user's.
  return kStyle.substr(kStyle.find('\n') + 1);
}

std::string picture_definitions() {
  return "<defs>" + gradient("viridis", kViridis) +
         gradient("diverging", kBlueToOrange) +
         "<pattern id=\"hatch\" width=\"6\" height=\"6\" "
         "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">"
         "<rect width=\"6\" height=\"6\" fill=\"#cfd4da\"/>"
         "<line y2=\"6\" stroke=\"#6b7480\" stroke-width=\"4\"/></pattern>"
         "</defs>\n";
}

std::string svg_document(const std::string& title, double width, double height,
                         const std::string& body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" "
      "role=\"img\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n"
      "<title>{2}</title>\n<style>\n{3}</style>\n{4}"
      "<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n{5}</svg>\n",
      width, height, xml_escaped(title), picture_style(), picture_definitions(),
      body);
}

}  // namespace qkvet::report
