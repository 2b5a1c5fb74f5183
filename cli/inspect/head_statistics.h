// SPDX-License-Identifier: Apache-2.0
// The weights of a head in a few numbers: means over the rows that see two keys
// or more.
#ifndef QKVET_CLI_INSPECT_HEAD_STATISTICS_H_
#define QKVET_CLI_INSPECT_HEAD_STATISTICS_H_

#include <cstdint>
#include <span>
#include <vector>

namespace qkvet::cli {

// The weights of one head: [rows,keys], which pairs are visible, and the key at
// a row's own position (it need not exist): the previous token is the one
// before it.
struct HeadWeights {
  int64_t rows = 0, keys = 0;
  std::span<const double> weights;     // [rows,keys]
  std::span<const uint8_t> sees;       // [rows,keys]
  std::span<const int64_t> diagonals;  // [rows]
};

struct HeadStatistics {
  int64_t rows = 0;           // with two visible keys or more
  int64_t previous_rows = 0;  // those of them that see the previous token
  int64_t first_rows = 0;     // those of them that see their first token, key 0
  // Shares of the weight of a row, 0 .. 1.
  double previous = 0;  // on the previous token, over previous_rows
  double first = 0;     // on key 0, over first_rows
  // Total variation distance to the uniform distribution over the n keys that a
  // row sees, sum_j |w_j - 1/n| / 2: 0 is uniform, 1 - 1/n a single key.
  double from_uniform = 0;
  // Shannon's entropy, - sum_j w_j log2 w_j, in bits, and as part of log2 n,
  // the most that it can be.
  double entropy_bits = 0;
  double entropy_part = 0;
  double largest = 0;  // weight
  int64_t largest_row = 0, largest_key = 0;
  bool finite = true;  // false: there is NaN or infinity among the weights
};

HeadStatistics head_statistics(const HeadWeights& head);

}  // namespace qkvet::cli

#endif  // QKVET_CLI_INSPECT_HEAD_STATISTICS_H_
