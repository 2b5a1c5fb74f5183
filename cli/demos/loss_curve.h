// SPDX-License-Identifier: Apache-2.0
// Losses over the steps of a training, in characters and as a picture.
#ifndef QKVET_CLI_DEMOS_LOSS_CURVE_H_
#define QKVET_CLI_DEMOS_LOSS_CURVE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace qkvet::cli {

struct LossCurve {
  std::string name;
  char mark = '*';
  std::vector<double> losses;  // one a step, at least 0
};

// Lines with an axis from 0 to the largest loss; each column is the mean of its
// steps. The last curve hides the others at a common point.
std::string curve_text(const std::vector<LossCurve>& curves, size_t width,
                       size_t height);

// SVG of up to two curves, which differ in colour and in dashes.
std::string curve_svg(const std::string& title,
                      const std::vector<LossCurve>& curves);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_DEMOS_LOSS_CURVE_H_
