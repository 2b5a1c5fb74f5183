// SPDX-License-Identifier: Apache-2.0
// attention_forward() and attention_backward() of karpathy/llm.c, train_gpt2.c:
// one pointer to q, k and v [B, T, 3, H, d], always causal, as many queries as
// keys.
#include <algorithm>
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

// Theirs adds to what the gradient's memory holds, and writes one block.
static qkvet_status differentiate(const qkvet_kernel*, qkvet_context*,
                                  const qkvet_backward_args* args,
                                  const qkvet_exec*, qkvet_text*) {
  const foreign::Call c = foreign::call_of(*args->forward);
  const size_t rows = size_t{1} * c.B * c.Tq, width = size_t{1} * c.H * c.d;
  std::vector<float> o(rows * width, NAN), d_block(rows * 3 * width, 0);
  std::vector<float> scores(rows * c.H * c.Tq, NAN), weights = scores;
  std::vector<float> d_scores(scores.size(), 0), d_weights = d_scores;
  float* const block = const_cast<float*>(c.q);
  attention_forward(o.data(), scores.data(), weights.data(), block, c.B, c.Tq,
                    c.H * c.d, c.H);
  attention_backward(d_block.data(), d_scores.data(), d_weights.data(),
                     foreign::data_of(args->d_o), block, weights.data(), c.B,
                     c.Tq, c.H * c.d, c.H);
  // Each gradient has memory of its own and the strides of the block.
  const qkvet_tensor* const gradients[] = {&args->d_q, &args->d_k, &args->d_v};
  for (size_t part = 0; part < 3; ++part)
    for (size_t row = 0; row < rows; ++row)
      std::copy_n(d_block.data() + (row * 3 + part) * width, width,
                  foreign::data_of(*gradients[part]) + row * 3 * width);
  return QKVET_OK;
}

static const qkvet_backward_table kGradient = {sizeof(qkvet_backward_table), 0,
                                               nullptr, differentiate, nullptr};

static void declare(qkvet_capabilities& c) {
  c.options |= QKVET_OPTION_CAUSAL_TOP_LEFT | QKVET_OPTION_CAUSAL_BOTTOM_RIGHT;
  c.flags = QKVET_FLAG_CAUSAL_ONLY;
  c.layouts = QKVET_LAYOUT_PACKED_QKV;
}

FOREIGN_LIBRARY("llmc", "cpu", foreign::forward<attend>, declare, kGradient);
