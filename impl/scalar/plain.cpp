// SPDX-License-Identifier: Apache-2.0
// scalar/plain: attention as in the textbooks, written to be read.
//
//   0. keys     those that the row sees: causal rule, window, mask, lengths
//   1. scores   s_j = scale * sum_c q_c k_jc
//               s_j = softcap * tanh(s_j / softcap) + bias_j
//                     - slope * |position of the row - j|
//   2. softmax  w_j = exp(s_j - m) / (sum exp(s - m) + exp(sink - m)),
//               m the largest of all s and the sink
//   3. values   o_c = sum_j f_j w_j v_jc, f_j: the factor of dropout
//               (dropout.h), 1 without
//
// Lengths and packed batches are cut into members first (members.h). The
// weights are normalised before they meet the values, because they are an
// output here. Half storage is converted to f32 first, and o and the weights
// are rounded to it last (in_f32.h). Cost: 2 (d + dv) flops a visible pair, one
// expf each, a row of weights and of keys [Tk] as memory; for masked keys only
// the mask is read.
//
// The gradient is that of backward_skeleton.h with every hook correct.
//
// Contract: any strides, addresses aligned to elements, outputs apart from
// inputs; NaN in a visible key or value makes its rows NaN.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>

#include "impl/call/declare.h"
#include "impl/call/forward_view.h"
#include "impl/call/in_f32.h"
#include "impl/call/scratch.h"
#include "impl/skeletons/backward_kernel.h"

namespace qkvet::impl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct RowOf {
  const ForwardCall& call;
  int64_t b, h, i;
  const int64_t* keys;  // that the row sees, ascending
  int64_t count;
  float* scores;  // [count], later the weights
};

// Applies the options to a scaled score.
float with_options(const RowOf& row, int64_t j, float s) {
  const Options& options = row.call.options;
  if (options.softcap > 0) {
    s = options.softcap * std::tanh(s / options.softcap);
  }
  if (options.bias.present()) {
    s += options.bias.get(row.b, row.h, row.i, j);
  }
  if (options.slopes.present()) {
    const int64_t distance = std::abs(row.call.position(row.i) - j);
    s -= options.slopes.get(row.b, row.h) * static_cast<float>(distance);
  }
  return s;
}

// Pass 1: scores of the keys. Returns the maximum of them and the sink.
float scores_of_row(const RowOf& row) {
  const ForwardCall& call = row.call;
  const float* const q = call.q.at(row.b, row.h, row.i);
  float max = call.options.sink_of(row.h);
  for (int64_t n = 0; n < row.count; ++n) {
    const int64_t j = row.keys[n];
    const float* const k = call.k.at(row.b, row.h / call.group(), j);
    float dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] * k[c * call.k.step[3]];
    }
    row.scores[n] = with_options(row, j, dot * call.scale);
    max = std::fmax(max, row.scores[n]);
  }
  return max;
}

// Pass 2: scores become weights. Returns their log-sum-exp. The sink is only in
// the sum; without one it is -infinity and adds 0.
float softmax_of_row(const RowOf& row, float max) {
  float sum = std::exp(row.call.options.sink_of(row.h) - max);
  for (int64_t n = 0; n < row.count; ++n) {
    row.scores[n] = std::exp(row.scores[n] - max);
    sum += row.scores[n];
  }
  for (int64_t n = 0; n < row.count; ++n) {
    row.scores[n] /= sum;
  }
  return max + std::log(sum);
}

// A weight after dropout.
float kept(const RowOf& row, int64_t n) {
  const Dropout& dropout = row.call.options.dropout;
  const float weight = row.scores[n];
  return dropout.present()
             ? weight * dropout.factor(row.b, row.h, row.i, row.keys[n])
             : weight;
}

// Pass 3: the weighted sum of the values; 0 if there are none.
void values_of_row(const RowOf& row) {
  const ForwardCall& call = row.call;
  float* const o = call.o.at(row.b, row.h, row.i);
  for (int64_t c = 0; c < call.value_width; ++c) {
    const float* const v =
        call.v.at(row.b, row.h / call.group(), 0) + c * call.v.step[3];
    float sum = 0;
    for (int64_t n = 0; n < row.count; ++n) {
      sum += kept(row, n) * v[row.keys[n] * call.v.step[2]];
    }
    o[c * call.o.step[3]] = sum;
  }
}

void compute_row(const RowOf& row) {
  const ForwardCall& call = row.call;
  float lse = -kInfinity;  // for a row without keys, with a sink or not
  if (row.count > 0) {
    lse = softmax_of_row(row, scores_of_row(row));
  }
  values_of_row(row);
  if (call.lse.data != nullptr) {
    *call.lse.at(row.b, row.h, row.i) = lse;
  }
  if (call.weights.data != nullptr) {
    float* const weights = call.weights.at(row.b, row.h, row.i);
    for (int64_t j = 0; j < call.keys; ++j) {
      weights[j * call.weights.step[3]] = 0;
    }
    for (int64_t n = 0; n < row.count; ++n) {
      weights[row.keys[n] * call.weights.step[3]] = row.scores[n];
    }
  }
}

qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
  std::unique_ptr<float[]> scores;
  std::unique_ptr<int64_t[]> keys;
  QKVET_TRY(allocate(call.keys, &scores, why, "no memory for the weights"));
  QKVET_TRY(allocate(call.keys, &keys, why, "no memory for the weights"));
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      for (int64_t i = 0; i < call.queries; ++i) {
        const int64_t count = call.list_keys(b, h, i, keys.get());
        compute_row({call, b, h, i, keys.get(), count, scores.get()});
      }
    }
  }
  return QKVET_OK;
}

// A row is computed alone and always in the same order, at any address.
constexpr qkvet_capabilities kCapabilities = [] {
  qkvet_capabilities c = capabilities_with(
      kAllOptions | kListOptions | kFieldOptions | QKVET_OPTION_WEIGHTS |
          kDropoutOptions | QKVET_OPTION_VALUES_IN_KEYS,
      {kF32, kF16, kBf16});
  c.flags |= QKVET_FLAG_ALIGNMENT_INVARIANT | QKVET_FLAG_LAYOUT_INVARIANT |
             QKVET_FLAG_BATCH_INVARIANT | QKVET_FLAG_BATCH_MATES_INVARIANT |
             QKVET_FLAG_ROW_INVARIANT | QKVET_FLAG_HEAD_ORDER_INVARIANT |
             QKVET_FLAG_THREADS_INVARIANT;
  return c;
}();

// Sequential in every sum; each weight is divided once, before P v.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.norm_first = 1;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel scalar_plain = with_backward(
    plain_kernel("scalar/plain", "three readable passes; returns weights",
                 {"impl/scalar/plain.cpp", __LINE__}, &kPrecision,
                 forward_in_f32<compute>, &kCapabilities),
    &kBackwardTable<PlainBackward>);

}  // namespace qkvet::impl
