// SPDX-License-Identifier: Apache-2.0
// Properties of a kernel's sums, of q.k over channels and of P v over keys:
// their order, their bits, and whether products are rounded first.
#ifndef QKVET_CLI_IDENTIFY_SUMS_H_
#define QKVET_CLI_IDENTIFY_SUMS_H_

#include <string>

#include "cli/identify/asking.h"
#include "cli/identify/sum_order.h"

namespace qkvet::cli {

struct SumFound {
  int terms = 0;  // the order is of so many
  int bits = 0;   // significant ones of the sum's type; 0: unknown
  bool wider =
      false;  // more bits than these, which are the most that were seen
  SumOrderFound order;
  std::string tree;  // "" if the order is unknown
  std::string why;   // the observation, or why there is none
};

// Over the channels of q.k: `d` of them, an extent that the kernel accepts.
SumFound ask_dot_sum(Asker& asker, int64_t d);
// Over the keys of P v: `keys` of them, a power of two.
SumFound ask_value_sum(Asker& asker, int64_t keys);

// Whether products of q.k are rounded before they are added; for sums of 24
// bits and f32 storage.
enum class Fused : uint8_t { kNotTold, kYes, kNo };
Fused ask_fused_dot(Asker& asker, int64_t d);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_IDENTIFY_SUMS_H_
