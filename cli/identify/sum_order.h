// SPDX-License-Identifier: Apache-2.0
// The order in which a sum is added, as a tree, found from its results. Let
// term i be a large M, term j be -M, and all others be ones. The ones that are
// added to M before it meets -M are lost. The rest shows how many terms are
// below the node at which i and j meet (Xie, Gao, Wang, Xue, "FPRev: Revealing
// Floating-Point Summation Trees Numerically", 2024).
#ifndef QKVET_CLI_IDENTIFY_SUM_ORDER_H_
#define QKVET_CLI_IDENTIFY_SUM_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace qkvet::cli {

// [n][n]: terms below the node at which i and j meet; of i and i: 1.
using Meetings = std::vector<std::vector<int>>;

// "((0 1) 2)"; "" if no tree has these meetings. Terms of a node ascend by
// their first one: the order of an addition's operands is unknown.
std::string tree_of(const Meetings& meets);

struct SumOrderFound {
  std::string words;  // "one after the other, ascending"; "" if unknown
  int32_t sum = 0;    // QKVET_SUM_*
  int32_t lanes = 0;  // with QKVET_SUM_LANES
};
// What `meets` is called; the first of several orders that have these meetings.
SumOrderFound name_of(const Meetings& meets);

// The meetings of sums of n terms, for tests: "ascending", "descending",
// "halves" or "lanes8".
Meetings meetings_of(const std::string& order, int n);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_IDENTIFY_SUM_ORDER_H_
