// SPDX-License-Identifier: Apache-2.0
#include "cli/base/read_loop.h"

#include <array>
#include <cstddef>

namespace qkvet::cli {

float sum_of(std::span<const float> values) {
  // Two additions a cycle of four cycles each, in vectors of four.
  constexpr size_t kSums = 32;
  std::array<float, kSums> sums{};
  size_t at = 0;
  for (; at + kSums <= values.size(); at += kSums)
    for (size_t i = 0; i < kSums; ++i) sums[i] += values[at + i];
  float total = 0;
  for (; at < values.size(); ++at) total += values[at];
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace qkvet::cli
