// SPDX-License-Identifier: Apache-2.0
// The hooks of hooks.h, and the arithmetic between them: every sum sequential
// and ascending, products rounded, expf, one division an element at the end.
#ifndef QKVET_IMPL_SKELETONS_HOOK_ROWS_H_
#define QKVET_IMPL_SKELETONS_HOOK_ROWS_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/skeletons/plain_hooks.h"

namespace qkvet::impl {

template <class Hooks>
struct HookRows {
  // Scores of row i, -inf if not Hooks::visible. Returns the maximum.
  static float scores(const ForwardCall& call, const float* q, const KeyHead& k,
                      int64_t i, float* scores) {
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < call.keys; ++j) {
      scores[j] = -std::numeric_limits<float>::infinity();
      if (!Hooks::visible(call, i, j)) {
        continue;
      }
      float dot = 0;
      for (int64_t c = 0; c < call.width; ++c) {
        dot += q[c * call.q.step[3]] * Hooks::key(k, j, c);
      }
      scores[j] = dot * Hooks::scale(call);
      max = std::fmax(max, scores[j]);
    }
    return max;
  }

  // Scores become weights that are not normalised yet; returns their sum.
  static float weigh(const ForwardCall& call, int64_t i, float shift,
                     float* scores) {
    float sum = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      if (Hooks::visible(call, i, j)) {
        scores[j] = std::exp(scores[j] - shift);
        sum = Hooks::add(call, sum, scores[j]);
      }
    }
    return sum;
  }

  // Column c of o.
  static float value(const ForwardCall& call, const float* v, int64_t i,
                     int64_t c, const float* weights, float sum) {
    float acc = 0;
    for (int64_t j = 0; j < call.keys; ++j) {
      if (Hooks::visible(call, i, j) && Hooks::keep(call, i, j)) {
        acc = Hooks::add_value(call, acc,
                               Hooks::weight(call, weights[j], sum) *
                                   v[j * call.v.step[2] + c * call.v.step[3]]);
      }
    }
    return Hooks::output(call, acc, sum);
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_HOOK_ROWS_H_
