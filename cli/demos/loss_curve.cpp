// SPDX-License-Identifier: Apache-2.0
#include "cli/demos/loss_curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "report/lines.h"
#include "report/svg.h"

namespace qkvet::cli {
namespace {

double largest_of(const std::vector<LossCurve>& curves) {
  double largest = 0;
  for (const LossCurve& curve : curves)
    for (const double loss : curve.losses) largest = std::max(largest, loss);
  return std::max(largest, 1e-9);  // only against 0/0
}

// Means of equally many sections; NaN for a section without a step.
std::vector<double> columns_of(const std::vector<double>& losses,
                               size_t width) {
  std::vector<double> sums(width, 0.0), counts(width, 0.0);
  for (size_t n = 0; n < losses.size(); ++n) {
    const size_t at = n * width / losses.size();
    sums[at] += losses[n];
    counts[at] += 1;
  }
  for (size_t at = 0; at < width; ++at) sums[at] /= counts[at];
  return sums;
}

// 0: the uppermost of `height` rows.
size_t row_of(double loss, double largest, size_t height) {
  const double below = (1 - loss / largest) * static_cast<double>(height - 1);
  return static_cast<size_t>(
      std::clamp(std::lround(below), 0L, static_cast<long>(height) - 1));
}

// 1, 2 or 5 times a power of ten: about a sixth of the whole.
double round_unit(double whole) {
  const double power = std::pow(10, std::floor(std::log10(whole / 6)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (whole / (factor * power) <= 6.5) return factor * power;
  return 10 * power;
}

}  // namespace

std::string curve_text(const std::vector<LossCurve>& curves, size_t width,
                       size_t height) {
  const double largest = largest_of(curves);
  std::vector<std::string> rows(height, std::string(width, ' '));
  for (const LossCurve& curve : curves) {
    const std::vector<double> columns = columns_of(curve.losses, width);
    for (size_t x = 0; x < width; ++x)
      if (!std::isnan(columns[x]))
        rows[row_of(columns[x], largest, height)][x] = curve.mark;
  }
  std::string out;
  for (size_t y = 0; y < height; ++y) {
    const double at = largest * (1 - static_cast<double>(y) /
                                         static_cast<double>(height - 1));
    rows[y].erase(rows[y].find_last_not_of(' ') + 1);
    out += fmt::format("  {:>5.2f} |{}\n", at, rows[y]);
  }
  out += fmt::format("        +{}\n", std::string(width, '-'));
  for (const LossCurve& curve : curves)
    out += fmt::format("        {}  {}\n", curve.mark, curve.name);
  return out;
}

std::string curve_svg(const std::string& title,
                      const std::vector<LossCurve>& curves) {
  constexpr double kLeft = 70, kTop = 56, kWidth = 620, kHeight = 300;
  constexpr double kBottom = kTop + kHeight;
  size_t steps = 1;
  for (const LossCurve& curve : curves)
    steps = std::max(steps, curve.losses.size());
  const double unit = round_unit(largest_of(curves));
  const double top = unit * std::ceil(largest_of(curves) / unit);
  const auto x_of = [&](double step) {
    return kLeft + kWidth * step / static_cast<double>(steps);
  };
  const auto y_of = [&](double loss) { return kBottom - kHeight * loss / top; };
  std::string out = svg_label(kLeft, 28, title, Anchor::kStart, "title") + "\n";
  for (double loss = 0; loss <= top; loss += unit)
    out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}h{}\"/>", kLeft,
                       y_of(loss), kWidth) +
           svg_label(kLeft - 8, y_of(loss) + 4, fmt::format("{:.4g}", loss),
                     Anchor::kEnd) +
           "\n";
  const double stride = round_unit(static_cast<double>(steps));
  for (double step = 0; step <= static_cast<double>(steps); step += stride)
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {}v5\"/>", x_of(step),
                       kBottom) +
           svg_label(x_of(step), kBottom + 19, fmt::format("{:.0f}", step));
  out += fmt::format("<path class=\"axis\" d=\"M{} {}V{}h{}\"/>\n", kLeft, kTop,
                     kBottom, kWidth);
  out += svg_label(kLeft + kWidth / 2, kBottom + 40, "step");
  out +=
      fmt::format("<g transform=\"translate(20 {}) rotate(-90)\">{}</g>\n",
                  kTop + kHeight / 2, svg_label(0, 0, "loss (nats a token)"));
  double key = kLeft;
  for (size_t n = 0; n < curves.size(); ++n) {
    const char* kind = n == 0 ? "curve" : "curve second";
    out += fmt::format("<polyline class=\"{}\" points=\"", kind);
    for (size_t step = 0; step < curves[n].losses.size(); ++step)
      out += fmt::format("{:.1f},{:.1f} ", x_of(static_cast<double>(step + 1)),
                         y_of(curves[n].losses[step]));
    out += fmt::format("\"><title>{}</title></polyline>\n",
                       xml_escaped(curves[n].name));
    out += fmt::format("<path class=\"{}\" d=\"M{:.0f} {}h36\"/>", kind, key,
                       kBottom + 64) +
           svg_label(key + 44, kBottom + 68, curves[n].name, Anchor::kStart) +
           "\n";
    key += 80 + label_width(curves[n].name);
  }
  return svg_document(title, kLeft + kWidth + 30, kBottom + 84, out);
}

}  // namespace qkvet::cli
