// SPDX-License-Identifier: Apache-2.0
// scalar/plain: attention as the textbooks write it, for people to read.
//
//   1. scores   s_j = scale * sum_c q_c k_jc        for the keys j in view
//   2. softmax  w_j = exp(s_j - max s) / sum exp(s - max s)
//   3. values   o_c = sum_j w_j v_jc
//
// The weights are normalised before they meet the values, because they are an
// output here. Half storage is converted to f32 first, and o and the weights
// are rounded to it last (in_f32.h). Cost: 2 (d + dv) flops a visible pair, one
// expf each, a row of weights [Tk] as memory; masked keys cost nothing and are
// never read.
//
// Contract: any strides, addresses aligned to elements, outputs apart from
// inputs; NaN in a visible key or value makes its rows NaN.
#include <cmath>
#include <limits>
#include <memory>
#include <new>

#include "impl/declare.h"
#include "impl/forward_view.h"
#include "impl/in_f32.h"

namespace qkvet::impl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Pass 1: scores of the first `keys` keys with row q. Returns their maximum.
float scores_of_row(const ForwardCall& call, const float* q, const float* k,
                    int64_t keys, float* scores) {
  float max = -kInfinity;
  for (int64_t j = 0; j < keys; ++j) {
    float dot = 0;
    for (int64_t c = 0; c < call.width; ++c) {
      dot += q[c * call.q.step[3]] * k[j * call.k.step[2] + c * call.k.step[3]];
    }
    scores[j] = dot * call.scale;
    max = std::fmax(max, scores[j]);
  }
  return max;
}

// Pass 2: scores become weights. Returns their log-sum-exp.
float softmax_of_row(float* scores, int64_t keys, float max) {
  float sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    scores[j] = std::exp(scores[j] - max);
    sum += scores[j];
  }
  for (int64_t j = 0; j < keys; ++j) {
    scores[j] /= sum;
  }
  return max + std::log(sum);
}

// Pass 3: the weighted sum of the values.
void values_of_row(const ForwardCall& call, const float* weights,
                   const float* v, int64_t keys, float* o) {
  for (int64_t c = 0; c < call.value_width; ++c) {
    float sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      sum += weights[j] * v[j * call.v.step[2] + c * call.v.step[3]];
    }
    o[c * call.o.step[3]] = sum;
  }
}

void compute_row(const ForwardCall& call, int64_t b, int64_t h, int64_t i,
                 float* scratch) {
  const int64_t kv = h / call.group();
  const int64_t keys = call.visible(i);
  float lse = -kInfinity;  // of a row that sees nothing; its o is then 0
  if (keys > 0) {
    const float max = scores_of_row(call, call.q.at(b, h, i),
                                    call.k.at(b, kv, 0), keys, scratch);
    lse = softmax_of_row(scratch, keys, max);
  }
  values_of_row(call, scratch, call.v.at(b, kv, 0), keys, call.o.at(b, h, i));
  if (call.lse.data != nullptr) {
    *call.lse.at(b, h, i) = lse;
  }
  if (call.weights.data != nullptr) {
    float* const weights = call.weights.at(b, h, i);
    for (int64_t j = 0; j < call.keys; ++j) {
      weights[j * call.weights.step[3]] = j < keys ? scratch[j] : 0;
    }
  }
}

qkvet_status compute(const ForwardCall& call, qkvet_text* why) {
  const std::unique_ptr<float[]> scratch(
      new (std::nothrow) float[static_cast<size_t>(call.keys)]);
  if (scratch == nullptr) {
    return refuse(why, QKVET_OUT_OF_MEMORY, "no memory for the weights");
  }
  for (int64_t b = 0; b < call.batch; ++b) {
    for (int64_t h = 0; h < call.heads; ++h) {
      for (int64_t i = 0; i < call.queries; ++i) {
        compute_row(call, b, h, i, scratch.get());
      }
    }
  }
  return QKVET_OK;
}

constexpr qkvet_capabilities kCapabilities = capabilities_with(
    kCommonOptions | QKVET_OPTION_WEIGHTS, {kF32, kF16, kBf16});

// Sequential in every sum; each weight is divided once, before P v.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.norm_first = 1;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel scalar_plain =
    plain_kernel("scalar/plain", "three readable passes; returns weights",
                 {"impl/scalar/plain.cpp", __LINE__}, &kPrecision,
                 forward_in_f32<compute>, &kCapabilities);

}  // namespace qkvet::impl
