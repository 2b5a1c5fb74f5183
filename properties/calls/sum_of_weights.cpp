// SPDX-License-Identifier: Apache-2.0
#include "properties/calls/sum_of_weights.h"

#include <cmath>
#include <limits>

#include "properties/judging/compare.h"

namespace qkvet::properties {

void compare_weights_with_one(const JudgeInput& input,
                              const std::vector<double>& bounds,
                              const std::vector<int64_t>& visible,
                              Judgement& judgement) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Grid rows(input.value.shape, TensorName::kLse);
  const auto width = static_cast<size_t>(input.value.shape.Tk);
  const std::vector<double> weights =
      read_output(input, input.calls[0], TensorName::kWeights);
  for (size_t row = 0; row * width < weights.size(); ++row) {
    if (visible[row] <= 0) continue;
    double sum = 0;  // in double: its own error is far below the bound
    for (size_t j = 0; j < width; ++j) sum += weights[row * width + j];
    const double bound = bounds[row];
    // Scores that overflow on the way: the weights may be anything, including
    // NaN.
    if (bound == kInfinity) {
      ++judgement.vacuous;
      continue;
    }
    const double error = std::fabs(sum - 1);
    ++judgement.compared;
    if (error <= bound) {
      keep_ratio(judgement, error == 0 ? 0 : error / bound);
      continue;
    }
    Finding finding;
    finding.where = "sum over j of " + rows.name(row).replace(0, 3, "weights");
    finding.expected = "1";
    finding.actual = number_text(sum, Dtype::kF64);
    finding.allowed = number_text(1 - bound, Dtype::kF64) + " .. " +
                      number_text(1 + bound, Dtype::kF64);
    finding.ratio = error > 0 ? error / bound : kInfinity;  // NaN
    add_failure(judgement, std::move(finding));
  }
}

}  // namespace qkvet::properties
