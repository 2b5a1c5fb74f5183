// SPDX-License-Identifier: Apache-2.0
// Judging that laws about gradients of attention and of layers share.
#ifndef QKVET_PROPERTIES_JUDGING_GRADIENT_JUDGING_H_
#define QKVET_PROPERTIES_JUDGING_GRADIENT_JUDGING_H_

#include <cmath>
#include <vector>

#include "core/base/half.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// The number of an output in draws. There were 45 inputs before the outputs
// when the first of these were drawn, and further inputs move no case.
inline uint64_t output_in_draws(TensorName output) {
  constexpr uint64_t kFirstInputs = 45;
  return static_cast<uint64_t>(output) - uint64_t{kInputCount} + kFirstInputs;
}

// A row of a gradient as it was stored, times a direction.
struct GradientAlong {
  double sum = 0;
  double bound = 0;  // with half a unit in the last place of each stored one
  double most = 0;   // of `reach`
};

// `direction`, `bounds` and `reach` are as long as `actual`; the row begins at
// `first`.
inline GradientAlong gradient_along(const std::vector<double>& actual,
                                    const std::vector<double>& direction,
                                    const std::vector<double>& bounds,
                                    const std::vector<double>& reach,
                                    int64_t first, int64_t width, Dtype dtype) {
  constexpr double kDoubleError = 0x1p-50;  // of a sum of few products
  GradientAlong along;
  for (int64_t c = 0; c < width; ++c) {
    const auto n = static_cast<size_t>(first + c);
    const double step = std::fabs(direction[n]);
    if (step == 0) continue;
    along.sum += actual[n] * direction[n];
    along.most += step * reach[n];
    // No number is near NaN or an infinity, so they widen nothing.
    const double size = std::isfinite(actual[n]) ? std::fabs(actual[n]) : 0;
    const double rounding =
        unit_roundoff(dtype) * size + underflow_error(dtype);
    along.bound += step * (bounds[n] + rounding +
                           static_cast<double>(width) * kDoubleError * size);
  }
  return along;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_GRADIENT_JUDGING_H_
