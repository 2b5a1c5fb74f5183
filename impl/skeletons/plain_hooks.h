// SPDX-License-Identifier: Apache-2.0
// The hooks that faults replace, one each (hooks.h).
#ifndef QKVET_IMPL_SKELETONS_PLAIN_HOOKS_H_
#define QKVET_IMPL_SKELETONS_PLAIN_HOOKS_H_

#include <cmath>
#include <cstdint>
#include <limits>

#include "impl/call/forward_view.h"

namespace qkvet::impl {

// K of one head.
struct KeyHead {
  const float* data;
  int64_t row_step;
  int64_t step;
  int64_t keys;   // Tk
  int64_t width;  // d

  float at(int64_t j, int64_t c) const { return data[j * row_step + c * step]; }
};

struct PlainHooks {
  static bool visible(const ForwardCall& call, int64_t i, int64_t j) {
    return j < call.visible(i);
  }
  static float key(const KeyHead& k, int64_t j, int64_t c) {
    return k.at(j, c);
  }
  static float scale(const ForwardCall& call) { return call.scale; }
  static float shift(float max) { return max; }
  static bool keep(const ForwardCall&, int64_t, int64_t) { return true; }
  static float add(const ForwardCall&, float sum, float weight) {
    return sum + weight;
  }
  static float weight(const ForwardCall&, float weight, float /*sum*/) {
    return weight;
  }
  static float add_value(const ForwardCall&, float acc, float term) {
    return acc + term;
  }
  static float output(const ForwardCall&, float acc, float sum) {
    return acc / sum;
  }
};

}  // namespace qkvet::impl

#endif  // QKVET_IMPL_SKELETONS_PLAIN_HOOKS_H_
