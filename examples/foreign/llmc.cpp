// SPDX-License-Identifier: Apache-2.0
// attention_forward() of karpathy/llm.c, train_gpt2.c: one pointer to q, k and
// v [B, T, 3, H, d], always causal, as many queries as keys.
#include <cmath>
#include <vector>

#include "adapter.h"

// Theirs, which needs the above.
#include "theirs/llmc_cpu.inc"

static void attend(const foreign::Call& c) {
  // The function fills both before it reads them: NaN shows if it does not.
  std::vector<float> scores(size_t{1} * c.B * c.H * c.Tq * c.Tq, NAN);
  std::vector<float> weights = scores;
  attention_forward(c.o, scores.data(), weights.data(), const_cast<float*>(c.q),
                    c.B, c.Tq, c.H * c.d, c.H);
}

static void declare(qkvet_capabilities& c) {
  c.options |= QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT;
  c.flags = QKVET_FLAG_CAUSAL_ONLY;
  c.layouts = QKVET_LAYOUT_PACKED_QKV;
}

FOREIGN_KERNEL("llmc", "cpu", attend, declare);
