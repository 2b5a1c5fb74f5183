// SPDX-License-Identifier: Apache-2.0
// A block of query rows computed by a call of its own, over only the keys that
// its last row sees, as in decode and chunked prefill.
#ifndef QKVET_PROPERTIES_CALLS_ROW_BLOCK_H_
#define QKVET_PROPERTIES_CALLS_ROW_BLOCK_H_

#include "properties/judging/law.h"

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

// The call for the block: `causal` is its mask, counted from the bottom right
// or none. Needs the truth; requests lse if the kernel has it.
PlannedCall block_call(const Case& value, const KernelInfo& kernel,
                       RowBlock block, Causal causal);

// Compares calls[1..], each a block, with the same rows of calls[0], the whole:
// both approximate the same numbers, each within its own bound.
Judgement judge_blocks(const JudgeInput& input);

}  // namespace qkvet::properties

#endif  // QKVET_PROPERTIES_CALLS_ROW_BLOCK_H_
