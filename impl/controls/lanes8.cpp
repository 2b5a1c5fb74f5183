// SPDX-License-Identifier: Apache-2.0
// controls/lanes8: q.k in eight partial sums, as a vector unit does it: term c
// goes to lane c mod 8, then the lanes are added by halves, (0+4, 1+5, 2+6,
// 3+7), then (0+2, 1+3), then the last two.
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

constexpr int kLanes = 8;

float dot_in_lanes(const float* q, const float* k, int64_t step, int64_t n) {
  float lane[kLanes] = {};
  for (int64_t c = 0; c < n; ++c) {
    lane[c % kLanes] += q[c] * k[c * step];
  }
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lane[i] += lane[i + half];
    }
  }
  return lane[0];
}

using Lanes8 = TwoPass<dot_in_lanes, libm_exp>;

constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.dot_lanes = kLanes;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_lanes8 =
    plain_kernel("controls/lanes8", "q.k in eight lanes and a tree",
                 {"impl/controls/lanes8.cpp", __LINE__}, &kPrecision,
                 kRowForward<Lanes8>, &kAllCapabilities);

}  // namespace qkvet::impl
