// SPDX-License-Identifier: Apache-2.0
// Parts of pictures: SVG (W3C, "Scalable Vector Graphics 2") with the reader's
// font, light and dark, in colours that are distinct for red-green blind
// readers, too. As separate files and within pages.
#ifndef QKVET_REPORT_SVG_H_
#define QKVET_REPORT_SVG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/floors.h"

namespace qkvet::report {

// Values, share 0 .. 1: viridis (van der Walt and Smith, 2015, CC0), even to
// the eye and in grey. "#21918c"
std::string sequential_colour(double share);
// Errors with a sign, share -1 .. 1: blue, white, orange (hues of Okabe and
// Ito, 2008).
std::string diverging_colour(double share);
// Fill of cells that are NaN.
inline constexpr const char* kHatch = "url(#hatch)";
// "light" or "dark": the kind of words on the colour.
const char* ink_on(const std::string& colour);

enum class Anchor : uint8_t { kStart, kMiddle, kEnd };
// (x, y): the foot of the letters. `kind`: a class of picture.css.
std::string svg_label(double x, double y, const std::string& text,
                      Anchor anchor = Anchor::kMiddle, const char* kind = "");
// How wide the letters of a label are, about.
double label_width(std::string_view text);

// A bar of colours with numbers under it: the place along the bar, 0 .. 1, and
// the text. kScaleHeight high.
struct ScaleMark {
  double share = 0;
  std::string text;
};
inline constexpr double kScaleWidth = 280, kScaleHeight = 46;
std::string scale_svg(double x, double y, const std::string& what,
                      bool diverging, const std::vector<ScaleMark>& marks);

// picture.css, and the definitions that pictures refer to by name: once in a
// page, with style.
std::string_view picture_style();
std::string picture_definitions();
// A file.
std::string svg_document(const std::string& title, double width, double height,
                         const std::string& body);

}  // namespace qkvet::report

#endif  // QKVET_REPORT_SVG_H_
