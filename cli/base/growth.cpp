// SPDX-License-Identifier: Apache-2.0
#include "cli/base/growth.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace qkvet::cli {

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  const double median = values.size() % 2 != 0
                            ? values[half]
                            : (values[half - 1] + values[half]) / 2;
  return {values.front(), median, values.back()};
}

std::optional<double> growth_exponent(std::span<const double> extents,
                                      std::span<const double> seconds) {
  const size_t count = extents.size();
  if (count < 2 || seconds.size() != count) return std::nullopt;
  std::vector<double> x, y;
  double x_sum = 0, y_sum = 0;
  for (size_t i = 0; i < count; ++i) {
    // A clock that is too coarse returns 0.
    if (!(extents[i] > 0) || !(seconds[i] > 0)) return std::nullopt;
    x_sum += x.emplace_back(std::log(extents[i]));
    y_sum += y.emplace_back(std::log(seconds[i]));
  }
  const double x_mean = x_sum / static_cast<double>(count);
  const double y_mean = y_sum / static_cast<double>(count);
  double squares = 0, products = 0;
  for (size_t i = 0; i < count; ++i) {
    squares += (x[i] - x_mean) * (x[i] - x_mean);
    products += (x[i] - x_mean) * (y[i] - y_mean);
  }
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  if (*least == *most) return std::nullopt;
  return products / squares;
}

}  // namespace qkvet::cli
