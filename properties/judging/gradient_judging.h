// SPDX-License-Identifier: Apache-2.0
// What the laws about gradients of attention and of layers judge alike.
#ifndef QKVET_PROPERTIES_JUDGING_GRADIENT_JUDGING_H_
#define QKVET_PROPERTIES_JUDGING_GRADIENT_JUDGING_H_

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/half.h"
#include "properties/judging/compare.h"
#include "properties/judging/law.h"

namespace qkvet::properties {

// A row of a gradient as it was stored, times a direction.
struct GradientAlong {
  double sum = 0;
  double bound = 0;  // with half a unit in the last place of what was stored
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
    // No NaN and no infinity is near anything: it allows itself nothing.
    const double size = std::isfinite(actual[n]) ? std::fabs(actual[n]) : 0;
    const double rounding =
        unit_roundoff(dtype) * size + underflow_error(dtype);
    along.bound += step * (bounds[n] + rounding +
                           static_cast<double>(width) * kDoubleError * size);
  }
  return along;
}

// Whether a number between the inputs and a gradient may be kept in a format
// that ends at 65504.
inline bool may_overflow_in_f16(const Case& value) {
  return value.q_dtype == Dtype::kF16 || value.kv_dtype == Dtype::kF16 ||
         value.o_dtype == Dtype::kF16;
}

// Element n of the same gradient, its tensors in several places: a finding,
// without its `where`, if it is NaN in some of them alone.
inline std::optional<Finding> nan_in_one_placement(
    const std::vector<std::vector<double>>& outputs, size_t n, Dtype dtype) {
  const double* finite = nullptr;
  const double* nan = nullptr;
  for (const auto& output : outputs)
    (std::isnan(output[n]) ? nan : finite) = &output[n];
  if (finite == nullptr || nan == nullptr) return std::nullopt;
  Finding finding;
  finding.expected = number_text(*finite, dtype) + ", wherever tensors lie";
  finding.actual = "nan in one placement";
  finding.looks = "a read of bytes beside a tensor, which held NaN";
  return finding;
}

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_JUDGING_GRADIENT_JUDGING_H_
