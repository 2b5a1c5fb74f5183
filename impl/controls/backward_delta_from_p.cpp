// SPDX-License-Identifier: Apache-2.0
// controls/backward_delta_from_p: what is subtracted from dp is the sum of
// p dp, which in exact arithmetic is that of do o; o is not looked at.
#include "impl/controls/arithmetic.h"
#include "impl/controls/row_gradient.h"
#include "impl/declare.h"

namespace qkvet::impl {
namespace {

struct DeltaFromP : GivenLse {
  static float delta(const GradientScores& row, const float* p) {
    float sum = 0;
    for (int64_t n = 0; n < row.count; ++n) {
      sum += p[n] * row.dp[n];
    }
    return sum;
  }
};

constexpr qkvet_precision kPrecision = sequential_f32();

}  // namespace

extern constinit const qkvet_kernel controls_backward_delta_from_p =
    with_backward(
        plain_kernel("controls/backward_delta_from_p",
                     "gradient with the sum of p dp in place of that of do o",
                     {"impl/controls/backward_delta_from_p.cpp", __LINE__},
                     &kPrecision, kRowForward<TwoPass<dot_ascending, libm_exp>>,
                     &kAllCapabilities),
        &kBackwardTable<PlainBackward, gradient_by_rows<DeltaFromP>>);

}  // namespace qkvet::impl
