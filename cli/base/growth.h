// SPDX-License-Identifier: Apache-2.0
// Statistics of a few measured times: their median, their spread, and their
// growth with an extent.
#ifndef QKVET_CLI_BASE_GROWTH_H_
#define QKVET_CLI_BASE_GROWTH_H_

#include <optional>
#include <span>
#include <vector>

namespace qkvet::cli {

// All zero if there is no value.
struct Spread {
  double least = 0;
  double median = 0;
  double most = 0;
};
Spread spread_of(std::vector<double> values);

// The p of seconds = c * extent^p: the slope of the least-squares line through
// (log extent, log seconds). Absent if it is not determined: fewer than two
// different extents, or a number that is not positive.
std::optional<double> growth_exponent(std::span<const double> extents,
                                      std::span<const double> seconds);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_BASE_GROWTH_H_
