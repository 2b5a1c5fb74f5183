// SPDX-License-Identifier: Apache-2.0
#include "reference/arithmetic/quantised.h"

#include <algorithm>
#include <cmath>

namespace qkvet::reference {
namespace {

constexpr double kUnit = 0x1p-24;           // of f32
constexpr double kNormal = 0x1p-126;        // the least that is never flushed
constexpr double kHalfStep = 1.0 / 17;      // of e4m3, relative
constexpr double kSubnormalStep = 0x1p-10;  // half of e4m3's, absolute

}  // namespace

double stored_error(StoredAs stored, double x, double range) {
  if (stored == StoredAs::kAsGiven) return 0;
  const double largest = CacheForm{0, 0, 0, stored}.largest_code();
  const double scale = range / largest;
  const bool int8 =
      stored == StoredAs::kInt8PerToken || stored == StoredAs::kInt8PerChannel;
  const double rounding =
      int8 ? scale / 2
           : std::max(kHalfStep * std::fabs(x), kSubnormalStep * scale);
  return rounding + 6 * kUnit * range + 2 * largest * kNormal;
}

std::vector<double> stored_errors(const CacheForm& form,
                                  const std::vector<double>& values,
                                  size_t width, const double* scales) {
  std::vector<double> errors(values.size());
  for (size_t row = 0; row < values.size(); row += width) {
    double most = 0;
    for (size_t c = 0; c < width; ++c)
      most = std::max(most, std::fabs(values[row + c]));
    for (size_t c = 0; c < width; ++c) {
      const double range =
          form.per_channel() ? form.largest_code() * scales[c] : most;
      errors[row + c] = stored_error(form.stored, values[row + c], range);
    }
  }
  return errors;
}

}  // namespace qkvet::reference
