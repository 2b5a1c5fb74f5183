// SPDX-License-Identifier: Apache-2.0
#include "tools/demos/loss_curve.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace qkvet::tools {
namespace {

double largest_of(const std::vector<LossCurve>& curves) {
  double largest = 0;
  for (const LossCurve& curve : curves)
    for (const double loss : curve.losses) largest = std::max(largest, loss);
  return std::max(largest, 1e-9);  // only against 0/0
}

// Means of as many stretches; NaN where a stretch has no step.
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

Drawing draw_curves(const std::string& title,
                    const std::vector<LossCurve>& curves) {
  constexpr int kLeft = 80, kTop = 60, kWidth = 600, kHeight = 300, kPoint = 3;
  constexpr Rgb kColours[] = {{33, 102, 172}, {178, 24, 43}};
  constexpr Rgb kAxis = {90, 90, 90};
  Drawing drawing;
  drawing.width = kLeft + kWidth + 40;
  drawing.height = kTop + kHeight + 80;
  drawing.title = title;
  drawing.labels.push_back({kLeft, kTop - 40, title, Anchor::kLeft});
  const double largest = largest_of(curves);
  if (!curves.empty())
    drawing.labels.push_back({kLeft + kWidth, kTop + kHeight + 8,
                              fmt::format("{} steps", curves[0].losses.size()),
                              Anchor::kRight});
  drawing.rects.push_back({kLeft - 2, kTop, 1, kHeight, kAxis, ""});
  drawing.rects.push_back(
      {kLeft - 2, kTop + kHeight, kWidth + 2, 1, kAxis, ""});
  for (int part = 0; part <= 4; ++part)
    drawing.labels.push_back({kLeft - 8, kTop + kHeight * part / 4 - 7,
                              fmt::format("{:.2f}", largest * (4 - part) / 4),
                              Anchor::kRight});
  for (size_t n = 0; n < curves.size(); ++n) {
    const Rgb colour = kColours[n % std::size(kColours)];
    const auto& losses = curves[n].losses;
    for (size_t step = 0; step < losses.size(); ++step) {
      const auto x = static_cast<int>(step * kWidth / losses.size());
      const auto y =
          static_cast<int>(std::lround((1 - losses[step] / largest) * kHeight));
      drawing.rects.push_back({kLeft + x, kTop + y - 1, kPoint, kPoint, colour,
                               fmt::format("{} step {}: {:.3f}", curves[n].name,
                                           step + 1, losses[step])});
    }
    const int line = kTop + kHeight + 20 + static_cast<int>(n) * 24;
    drawing.rects.push_back({kLeft, line, 14, 14, colour, ""});
    drawing.labels.push_back({kLeft + 22, line, curves[n].name, Anchor::kLeft});
  }
  return drawing;
}

}  // namespace qkvet::tools
