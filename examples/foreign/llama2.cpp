// SPDX-License-Identifier: Apache-2.0
// The attention of karpathy/llama2.c, run.c, cut out of its forward(): one
// query against all tokens of a cache [T, Hkv, d], grouped heads.
#include <cmath>
#include <cstring>
#include <vector>

#include "adapter.h"

// Theirs, which needs the above.
#include "theirs/llama2_softmax.inc"

namespace {

// The names that the code out of forward() uses.
struct State {
  float *q, *att, *xb, *key_cache, *value_cache;
};
struct Model {
  int n_heads, seq_len;
};

void decode(State* s, Model* p, int pos, int kv_dim, int kv_mul,
            int head_size) {
  constexpr int loff = 0;  // of the first layer
#include "theirs/llama2_attention.inc"
}

void attend(const foreign::Call& c) {
  std::vector<float> scores(size_t{1} * c.H * c.Tk, NAN);
  const int kv_width = c.Hkv * c.d, width = c.H * c.d;
  for (int b = 0; b < c.B; ++b) {
    State state = {const_cast<float*>(c.q) + b * width, scores.data(),
                   c.o + b * width,
                   const_cast<float*>(c.k) + b * c.Tk * kv_width,
                   const_cast<float*>(c.v) + b * c.Tk * kv_width};
    Model model = {c.H, c.Tk};
    decode(&state, &model, c.Tk - 1, kv_width, c.H / c.Hkv, c.d);
  }
}

void declare(qkvet_capabilities& c) {
  c.options |= QKVET_OPTION_CAUSAL_BOTTOM_RIGHT | QKVET_OPTION_CROSS_LENGTHS |
               QKVET_OPTION_GROUPED_HEADS;
  c.tq = {1, 1, 1};
  c.layouts = QKVET_LAYOUT_BTHD;
}

}  // namespace

FOREIGN_KERNEL("llama2", "decode", attend, declare);
