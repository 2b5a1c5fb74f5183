// SPDX-License-Identifier: Apache-2.0
// What a kernel's sums reveal: of q.k over channels, and of P v over keys. In
// which order, in how many bits, and whether products are rounded first.
#ifndef QKVET_TOOLS_IDENTIFY_SUMS_H_
#define QKVET_TOOLS_IDENTIFY_SUMS_H_

#include <string>

#include "tools/identify/asking.h"
#include "tools/identify/sum_order.h"

namespace qkvet::tools {

struct SumFound {
  int terms = 0;  // the order is of so many
  int bits = 0;   // significant ones of what is summed in; 0: not told
  bool wider =
      false;  // more bits than these, which are the most that were seen
  SumOrderFound order;
  std::string tree;  // "" if the order is not told
  std::string why;   // the observation, or why there is none
};

// Over the channels of q.k: `d` of them, an extent that the kernel takes.
SumFound ask_dot_sum(Asker& asker, int64_t d);
// Over the keys of P v: `keys` of them, a power of two.
SumFound ask_value_sum(Asker& asker, int64_t keys);

// Whether products of q.k are rounded before they are added, where their sum
// has 24 bits and f32 is stored.
enum class Fused : uint8_t { kNotTold, kYes, kNo };
Fused ask_fused_dot(Asker& asker, int64_t d);

}  // namespace qkvet::tools

#endif  // QKVET_TOOLS_IDENTIFY_SUMS_H_
