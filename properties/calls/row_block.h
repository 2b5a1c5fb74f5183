// SPDX-License-Identifier: Apache-2.0
// A block of query rows computed by a call of its own, over only the keys that
// its last row sees, as in decode and chunked prefill.
#ifndef QKVET_PROPERTIES_CALLS_ROW_BLOCK_H_
#define QKVET_PROPERTIES_CALLS_ROW_BLOCK_H_

#include "properties/calls/call_pairs.h"

namespace qkvet::properties {

// Rows [from, to) of a case.
struct RowBlock {
  int64_t from = 0;
  int64_t to = 0;

  // As the argument of a planned call.
  int64_t packed() const { return from << 32 | to; }
  static RowBlock unpacked(int64_t argument) {
    return {argument >> 32, argument & 0xFFFFFFFF};
  }
};

// For relations. Adds the call for the block: `causal` is its mask, counted
// from the bottom right or none; and the rows of the block in its call.
void add_block(const Case& value, RowBlock block, Causal causal, Plan& plan);
void rows_of_block(const JudgeInput& input, CallPair& pair);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_ROW_BLOCK_H_
