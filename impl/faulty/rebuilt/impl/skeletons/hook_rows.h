// SPDX-License-Identifier: Apache-2.0
// Another arithmetic for the same hooks: keys from the last to the first, dots
// in four lanes.
#ifndef QKVET_IMPL_SKELETONS_HOOK_ROWS_H_
#define QKVET_IMPL_SKELETONS_HOOK_ROWS_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/skeletons/plain_hooks.h"

namespace qkvet::impl {

template <class Hooks>
struct HookRows {
  static constexpr int64_t kLanes = 4;

  static float scores(const ForwardCall& call, const float* q, const KeyHead& k,
                      int64_t i, float* scores) {
    float max = -std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < call.keys; ++j) {
      scores[j] = -std::numeric_limits<float>::infinity();
      if (!Hooks::visible(call, i, j)) {
        continue;
      }
      float lanes[kLanes] = {};
      for (int64_t c = 0; c < call.width; ++c) {
        lanes[c % kLanes] += q[c * call.q.step[3]] * Hooks::key(k, j, c);
      }
      scores[j] =
          ((lanes[0] + lanes[2]) + (lanes[1] + lanes[3])) * Hooks::scale(call);
      max = std::fmax(max, scores[j]);
    }
    return max;
  }

  static float weigh(const ForwardCall& call, int64_t i, float shift,
                     float* scores) {
    float sum = 0;
    for (int64_t j = call.keys - 1; j >= 0; --j) {
      if (Hooks::visible(call, i, j)) {
        scores[j] = std::exp(scores[j] - shift);
        sum = Hooks::add(call, sum, scores[j]);
      }
    }
    return sum;
  }

  static float value(const ForwardCall& call, const float* v, int64_t i,
                     int64_t c, const float* weights, float sum) {
    float acc = 0;
    for (int64_t j = call.keys - 1; j >= 0; --j) {
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
