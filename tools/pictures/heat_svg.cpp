// SPDX-License-Identifier: Apache-2.0
// A drawing as SVG (W3C, "Scalable Vector Graphics 1.1"): every cell tells its
// number where a pointer rests on it.
#include <fmt/core.h>

#include "tools/pictures/heat_drawing.h"
#include "tools/report/report.h"

namespace qkvet::tools {
namespace {

const char* anchor_text(Anchor anchor) {
  switch (anchor) {
    case Anchor::kLeft:
      return "start";
    case Anchor::kMiddle:
      return "middle";
    case Anchor::kRight:
      return "end";
  }
  return "start";
}

}  // namespace

std::string svg_text(const Drawing& drawing) {
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"monospace\" font-size=\"{2}\">\n"
      "<title>{3}</title>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      drawing.width, drawing.height, kLetterHeight + 2,
      xml_escaped(drawing.title));
  for (const Rect& rect : drawing.rects) {
    out += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
        "fill=\"#{:02x}{:02x}{:02x}\"",
        rect.x, rect.y, rect.width, rect.height, rect.colour.r, rect.colour.g,
        rect.colour.b);
    out += rect.tip.empty() ? "/>\n"
                            : fmt::format("><title>{}</title></rect>\n",
                                          xml_escaped(rect.tip));
  }
  for (const Label& label : drawing.labels)
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
                       label.x, label.y + kLetterHeight - kDot,
                       anchor_text(label.anchor), xml_escaped(label.text));
  return out + "</svg>\n";
}

}  // namespace qkvet::tools
