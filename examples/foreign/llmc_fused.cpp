// SPDX-License-Identifier: Apache-2.0
// attention_forward_fused1() of karpathy/llm.c, dev/cuda/attention_forward.cu,
// on the emulator: a warp for each query, eight of them a block.

#include <cmath>
#include <vector>

#include "adapter.h"
#include "qkvet/simt/groups.h"
#include "qkvet/simt/runtime.h"

// Theirs, which needs the above.
#include "theirs/llmc_fused.inc"

static void attend(const foreign::Call& c) {
  constexpr int kWarps = 8;
  std::vector<float> scores(size_t{1} * c.B * c.H * c.Tq * c.Tq, NAN);
  std::vector<float> weights = scores;
  const dim3 blocks((c.Tq + kWarps - 1) / kWarps, c.H, c.B);
  simt::or_abort(SIMT_LAUNCH(attention_forward_fused1, blocks,
                             dim3(kWarps * 32), 0, nullptr, c.o, scores.data(),
                             weights.data(), c.q, c.B, c.Tq, c.H * c.d, c.H));
}

static void declare(qkvet_capabilities& c) {
  c.options |= QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT;
  c.flags = QKVET_FLAG_CAUSAL_ONLY;
  c.layouts = QKVET_LAYOUT_PACKED_QKV;
}

FOREIGN_KERNEL("llmc", "fused", attend, declare);
