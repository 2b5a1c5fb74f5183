// SPDX-License-Identifier: Apache-2.0
// controls/reversed: every sum from its last term to its first. Catches a judge
// that believes only in ascending sums.
#include <cstdint>

#include "impl/controls/arithmetic.h"
#include "impl/declare.h"
#include "impl/row_frame.h"

namespace qkvet::impl {
namespace {

float dot_descending(const float* q, const float* k, int64_t step, int64_t n) {
  float sum = 0;
  for (int64_t c = n - 1; c >= 0; --c) {
    sum += q[c] * k[c * step];
  }
  return sum;
}

using Reversed = TwoPass<dot_descending, libm_exp, /*kDescending=*/true>;

// The lanes of a declaration are ascending, so both orders stay undeclared.
constexpr qkvet_precision kPrecision = [] {
  qkvet_precision p = sequential_f32();
  p.dot_sum = QKVET_SUM_ANY;
  p.dot_lanes = 0;
  p.value_sum = QKVET_SUM_ANY;
  return p;
}();

}  // namespace

extern constinit const qkvet_kernel controls_reversed = plain_kernel(
    "controls/reversed", "all sums from the last term to the first",
    {"impl/controls/reversed.cpp", __LINE__}, &kPrecision,
    kRowForward<Reversed>, &kAllCapabilities);

}  // namespace qkvet::impl
